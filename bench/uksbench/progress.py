"""A line that says how far the bench is and when it will be ready."""
import shutil
import sys
import time


class Progress:
    def __init__(self, stream=sys.stderr):
        self.stream = stream
        self.live = stream.isatty()
        self._said = 0.0

    def show(self, done, total, left_seconds, what):
        now = time.monotonic()
        share = done / total if total else 1.0
        eta = f'{int(left_seconds) // 60}:{int(left_seconds) % 60:02}'
        if self.live:
            width = max(40, shutil.get_terminal_size().columns)
            bar = '#' * int(share * 20)
            text = f'[{bar:<20}] {done}/{total}  {eta} left  {what}'
            self.stream.write('\r' + text[:width - 1].ljust(width - 1))
            self.stream.flush()
        elif now - self._said > 15 or done == total:
            self._said = now
            self.stream.write(f'{done}/{total} runs, {eta} left, {what}\n')
            self.stream.flush()

    def say(self, text):
        if self.live:
            self.stream.write('\r\x1b[K')
        self.stream.write(text + '\n')
        self.stream.flush()
