#!/usr/bin/env bash
# node: files, child processes, worker threads, sockets on loopback and in the file system.
. "$(dirname "$0")/lib.sh"
need node

js() { same_cmd "$1" node -e "$2"; }

js hello 'console.log("hello", process.argv.length, process.platform); console.error("err"); process.exitCode = 4'
js fs '
const fs = require("fs"), path = require("path"), os = require("os");
fs.mkdirSync("a/b/c", {recursive: true}); fs.writeFileSync("a/b/f", "x".repeat(100000));
fs.appendFileSync("a/b/f", "end"); fs.copyFileSync("a/b/f", "a/g"); fs.symlinkSync("b/f", "a/l");
console.log(fs.statSync("a/l").size, fs.lstatSync("a/l").isSymbolicLink(), fs.readlinkSync("a/l"), fs.realpathSync("a/l").endsWith("a/b/f"));
fs.renameSync("a/g", "a/h"); fs.linkSync("a/h", "a/i"); console.log(fs.statSync("a/i").nlink, fs.readdirSync("a").sort());
fs.chmodSync("a/h", 0o640); console.log((fs.statSync("a/h").mode & 0o777).toString(8)); fs.truncateSync("a/h", 10);
fs.utimesSync("a/h", 1000, 2000); console.log(fs.statSync("a/h").mtimeMs, fs.readFileSync("a/h", "utf8"));
const d = fs.mkdtempSync(path.join(os.tmpdir(), "n-")); fs.writeFileSync(d + "/x", "1"); fs.rmSync(d, {recursive: true}); console.log(fs.existsSync(d));
try { fs.readFileSync("none") } catch (e) { console.log(e.code) }
try { fs.rmdirSync("a") } catch (e) { console.log(e.code) }
(async () => {
  await Promise.all([...Array(200).keys()].map(i => fs.promises.writeFile("p" + i, String(i))));
  const all = await Promise.all([...Array(200).keys()].map(i => fs.promises.readFile("p" + i, "utf8")));
  console.log(all.reduce((x, y) => x + Number(y), 0));
  await Promise.all([...Array(200).keys()].map(i => fs.promises.unlink("p" + i)));
  const w = fs.createWriteStream("s"); for (let i = 0; i < 1000; i++) w.write("line " + i + "\n"); w.end();
  w.on("finish", () => { let n = 0; fs.createReadStream("s").on("data", c => n += c.length).on("end", () => console.log(n)) });
})()'
js fs_watch '
const fs = require("fs"); fs.mkdirSync("wd");
const seen = new Set(), w = fs.watch("wd", (e, n) => { seen.add(e + " " + n); if (n == "last") { w.close(); console.log([...seen].sort().join("\n")) } });
fs.writeFileSync("wd/a", "1"); fs.renameSync("wd/a", "wd/b"); fs.appendFileSync("wd/b", "2"); fs.unlinkSync("wd/b"); fs.mkdirSync("wd/last")'
js child_process '
const {execSync, spawn, exec, fork, spawnSync, execFile} = require("child_process");
console.log(execSync("echo $((6*7)); seq 3").toString());
console.log(spawnSync("sh", ["-c", "cat; echo e >&2; exit 3"], {input: "in"}).status, spawnSync("/none").error.code);
const p = spawn("cat"); p.stdout.on("data", d => console.log("cat", String(d))); p.stdin.end("through");
p.on("close", (c, s) => { console.log("close", c, s);
  const k = spawn("sleep", ["100"]); k.on("exit", (c, s) => { console.log("killed", c, s);
    exec("exit 7", (e) => { console.log("exec", e.code);
      let left = 30; for (let i = 0; i < 30; i++) execFile("true", () => { if (--left == 0) console.log("30 done") }) }) });
  k.kill("SIGTERM") })'
js fork_ipc '
const cp = require("child_process");
require("fs").writeFileSync("c.js", "process.on(\"message\", m => { process.send({twice: m.n * 2}); if (m.n == 5) process.disconnect() })");
const c = cp.fork("./c.js"); c.on("message", m => console.log(m.twice)); for (let i = 0; i < 6; i++) c.send({n: i});
c.on("exit", (x) => console.log("exit", x))'
js worker_threads '
const {Worker} = require("worker_threads");
let left = 5, sum = 0;
const done = () => { if (--left == 0) console.log("sum", sum, "shared", shared[1]) };
for (let i = 0; i < 4; i++) {
  const w = new Worker("const {parentPort, workerData} = require(\"worker_threads\"); let s = 0; for (let i = 0; i < 1e6; i++) s += i % (workerData + 2); parentPort.postMessage(s)", {eval: true, workerData: i});
  w.on("message", m => sum += m); w.on("exit", done);
}
const shared = new Int32Array(new SharedArrayBuffer(8));
const w = new Worker("const {workerData: a} = require(\"worker_threads\"); Atomics.wait(a, 0, 0, 5000); Atomics.store(a, 1, 7); Atomics.notify(a, 1)", {eval: true, workerData: shared});
w.on("online", () => { Atomics.store(shared, 0, 1); Atomics.notify(shared, 0); });
w.on("exit", done)'
js net_loopback '
const net = require("net");
const s = net.createServer(c => { c.on("data", d => c.write(String(d).toUpperCase())); c.on("end", () => c.end()) });
s.listen(0, "127.0.0.1", () => {
  let left = 20;
  for (let i = 0; i < 20; i++) { let got = ""; const c = net.connect(s.address().port, "127.0.0.1", () => c.end("hello " + i));
    c.on("data", d => got += d); c.on("close", () => { if (got != "HELLO " + i) console.log("wrong", got); if (--left == 0) { console.log("20 clients"); s.close() } }) } })
s.on("close", () => { const c = net.connect(1, "127.0.0.1"); c.on("error", e => console.log(e.code)) })'
js net_unix '
const net = require("net");
const s = net.createServer(c => c.pipe(c)); s.listen("/tmp/node-echo.sock", () => {
  const c = net.connect("/tmp/node-echo.sock"); let n = 0; const big = Buffer.alloc(1 << 20, 97);
  c.on("data", d => { n += d.length; if (n == big.length) { console.log("echoed", n); c.destroy(); s.close() } }); c.write(big) })'
js http '
const http = require("http");
const s = http.createServer((q, r) => { let b = ""; q.on("data", d => b += d); q.on("end", () => r.end(q.method + q.url + b)) }).listen(0, "localhost", async () => {
  const u = "http://localhost:" + s.address().port;
  console.log(await (await fetch(u + "/a")).text(), await (await fetch(u + "/b", {method: "POST", body: "body"})).text());
  await Promise.all([...Array(50).keys()].map(i => fetch(u + "/" + i).then(r => r.text()))); console.log("50 requests"); s.closeAllConnections(); s.close() })'
js udp '
const d = require("dgram"), a = d.createSocket("udp4"), b = d.createSocket("udp4");
a.on("message", (m, r) => { console.log(String(m)); a.close(); b.close() }); a.bind(0, "127.0.0.1", () => b.send("datagram", a.address().port, "127.0.0.1"))'
js timers_signals '
let n = 0; const t = setInterval(() => { if (++n == 3) { clearInterval(t); process.kill(process.pid, "SIGUSR2") } }, 5);
process.on("SIGUSR2", () => { console.log("usr2", n); process.kill(process.pid, "SIGTERM") })'
js crypto_zlib '
const c = require("crypto"), z = require("zlib"); console.log(c.randomBytes(16).length, c.createHash("sha256").update("x").digest("hex"), z.gunzipSync(z.gzipSync("y".repeat(1e6))).length);
c.pbkdf2("a", "b", 1000, 32, "sha512", (e, k) => console.log(k.toString("hex")))'
js dns_localhost 'require("dns").lookup("localhost", {family: 4}, (e, a) => console.log(e, a))'
js out_is_unreachable '
const c = require("net").connect(80, "192.0.2.1"); c.setTimeout(3000, () => { console.log("no answer"); process.exit(77) }); c.on("error", e => { console.log(e.code == "ENETUNREACH" || "no route"); process.exit(e.code == "ENETUNREACH" ? 0 : 77) })'
js esm_and_require 'require("fs").writeFileSync("m.mjs", "import fs from \"fs\"; export default fs.existsSync(\"m.mjs\")"); import("./m.mjs").catch(() => import(process.cwd() + "/m.mjs")).then(m => console.log(m.default))'
js memory 'let a = []; for (let i = 0; i < 50; i++) a.push(Buffer.alloc(1 << 20, i)); console.log(a.reduce((s, b) => s + b[5], 0)); for (let i = 0, s = ""; i < 1e6; i++) s += i; if (global.gc) gc(); console.log("done")'
finish
