"""A coding agent's tool calls, replayed: each in a sandbox of its own, and all in one sandbox that lives on."""
import json
import pathlib

from .agent_repository import make_repository, transcript
from .base import Metric, Workload, WrongResult, expect

# Runs the calls of calls.json one after the other as `bash -c`, and notes what each took and how it ended.
DRIVER = '''
import json, subprocess, sys, time
calls = json.load(open("../calls.json"))
with open("../answers.jsonl", "w") as answers:
    for number, call in enumerate(calls):
        begin = time.perf_counter()
        done = subprocess.run(["/bin/bash", "-c", call["command"]], stdin=subprocess.DEVNULL, capture_output=True)
        seconds = time.perf_counter() - begin
        json.dump({"code": done.returncode, "seconds": seconds, "out": done.stdout.decode(errors="replace")[-2000:],
                   "err": done.stderr.decode(errors="replace")[-300:]}, answers)
        answers.write("\\n")
'''


class Agent(Workload):
    group = 'agent'
    needs = ('bash', 'git', 'gcc', 'make', 'python3', 'node', 'rg')
    seconds = 12.0

    def calls(self):
        return transcript()[:self.full(200, 20)]

    def prepare(self, work):
        (work / 'home').mkdir(exist_ok=True)
        make_repository(work / 'pristine')
        (work / 'calls.json').write_text(json.dumps(self.calls()))
        (work / 'driver.py').write_text(DRIVER)

    def reset(self, sandbox, work):
        """A fresh copy, by a command of the account's own, outside any sandbox."""
        outcome = sandbox.outside(['/bin/sh', '-c', 'rm -rf repo home/.npm && cp -a pristine repo'])
        if not outcome.ok:
            raise WrongResult('cannot copy the repository: ' + outcome.message())

    def judge(self, number, call, code, out, err):
        if code != call['code']:
            raise WrongResult(f'call {number + 1} (`{call["command"][:80]}`) ended with {code}, not {call["code"]}: '
                              f'{(err or out).strip()[-160:]}')
        if call['says'] not in out:
            raise WrongResult(f'call {number + 1} (`{call["command"][:80]}`) did not say {call["says"]!r}')

    def same_end(self, work):
        """The repository must be what the first run left: by the tree of its last commit and the files changed since."""
        digest = (pathlib.Path(work) / 'repo' / '.git' / 'refs' / 'heads' / 'main').read_text().strip()
        expect(digest == self.context.once('agent', lambda: digest), 'another last commit than the first run\'s')


class AgentEach(Agent):
    name = 'agent/each'
    what = '200 tool calls of a coding agent (quick: 20), each as a sandbox of its own'
    metrics = (Metric('agent/each', 'each call its own sandbox'),)

    def measure(self, sandbox, work):
        self.reset(sandbox, work)
        total = 0.0
        outcome = None
        for number, call in enumerate(self.calls()):
            outcome = sandbox.run(['/bin/bash', '-c', f'cd repo && {call["command"]}'])
            if outcome.timed_out:
                return outcome, {}
            self.judge(number, call, outcome.code, outcome.out, outcome.err)
            total += outcome.seconds
        outcome.code = 0  # the last call may be one that is to fail
        self.same_end(work)
        return outcome, {'agent/each': total}


class AgentOne(Agent):
    name = 'agent/one'
    what = 'the same calls in one sandbox; its start is not counted'
    metrics = (Metric('agent/one', 'all calls in one sandbox'),)

    def measure(self, sandbox, work):
        self.reset(sandbox, work)
        outcome = sandbox.run(['/bin/bash', '-c', 'cd repo && exec /usr/bin/python3 ../driver.py'])
        if not outcome.ok:
            return outcome, {}
        lines = (pathlib.Path(work) / 'answers.jsonl').read_text().splitlines()
        calls = self.calls()
        expect(len(lines) == len(calls), f'{len(lines)} of {len(calls)} calls were answered')
        total = 0.0
        for number, (call, line) in enumerate(zip(calls, lines)):
            answer = json.loads(line)
            self.judge(number, call, answer['code'], answer['out'], answer['err'])
            total += answer['seconds']
        self.same_end(work)
        return outcome, {'agent/one': total}


WORKLOADS = (AgentEach, AgentOne)
