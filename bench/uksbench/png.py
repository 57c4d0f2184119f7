"""SVG charts as PNG files, by headless Chromium: the standard library draws no pictures."""
import os
import re
import shutil
import subprocess
import tempfile


def browser():
    for name in ('chromium', 'chromium-browser', 'google-chrome'):
        path = shutil.which(name, path='/usr/local/bin:/usr/bin:/bin')
        if path:
            return path
    return None


def screenshot(program, source, target, width, height):
    """One page as a picture; True if it was made."""
    with tempfile.TemporaryDirectory() as profile:
        command = [program, '--headless', '--disable-gpu', '--hide-scrollbars', '--no-first-run',
                   f'--user-data-dir={profile}', f'--window-size={width},{height}', '--force-device-scale-factor=2',
                   f'--screenshot={target}', f'file://{source}']
        if os.geteuid() == 0:
            command.insert(1, '--no-sandbox')  # it refuses to have one as root; the page is ours
        try:
            subprocess.run(command, capture_output=True, timeout=60, check=False)
        except subprocess.TimeoutExpired:
            return False
    return target.exists()


def write(folder, charts):
    """Writes NAME.svg and NAME.png of each. Returns a line that says what became of them."""
    folder.mkdir(exist_ok=True)
    folder = folder.resolve()
    program = browser()
    made = 0
    for name, text in charts.items():
        source = folder / f'{name}.svg'
        source.write_text(text, encoding='utf-8')
        width, height = re.search(r'width="(\d+)" height="(\d+)"', text).groups()
        if program:
            made += screenshot(program, source, folder / f'{name}.png', width, height)
    if program is None:
        return f'{folder}: {len(charts)} SVG; no PNG, because no Chromium is installed (apt-get install chromium)'
    return f'{folder}: {len(charts)} SVG, {made} PNG'
