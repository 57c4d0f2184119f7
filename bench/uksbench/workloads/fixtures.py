"""Files that several workloads need. The same bytes on every machine."""
import pathlib
import random

WORDS = ('account buffer cache delta engine filter graph handle index journal kernel layer memory needle object packet '
         'queue record signal thread update vector window yield zone').split()


def source_tree(root, files, seed=1):
    """`files` text files in directories of 50, some 2 KiB each. Returns how many lines hold the word `needle42`."""
    root = pathlib.Path(root)
    generator = random.Random(seed)
    needles = 0
    for number in range(files):
        directory = root / f'part{number // 250:02}' / f'unit{number // 50 % 5}'
        if number % 50 == 0:
            directory.mkdir(parents=True, exist_ok=True)
        lines = []
        for line in range(generator.randrange(20, 60)):
            words = [generator.choice(WORDS) for _ in range(generator.randrange(3, 9))]
            if generator.random() < 0.01:
                words.append('needle42')
                needles += 1
            lines.append(f'  {" ".join(words)} = {line * number % 977};')
        (directory / f'file{number:05}.c').write_text('\n'.join(lines) + '\n')
    return needles


def c_project(root, files):
    """A Makefile and `files` C files; the program prints the sum of 1..files."""
    root = pathlib.Path(root)
    root.mkdir(parents=True, exist_ok=True)
    names = [f'unit{number:03}' for number in range(1, files + 1)]
    for number, name in enumerate(names, 1):
        body = '\n'.join(f'static int step{i}(int x) {{ return (x * {i + number} + {i}) % 1000003; }}' for i in range(40))
        calls = '\n'.join(f'  x = step{i}(x);' for i in range(40))
        (root / f'{name}.c').write_text(
            f'#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n{body}\n'
            f'int {name}_mix(int x) {{\n{calls}\n  return x;\n}}\nint {name}(void) {{ return {number}; }}\n')
    declarations = '\n'.join(f'int {name}(void);' for name in names)
    total = ' + '.join(f'{name}()' for name in names)
    (root / 'main.c').write_text(f'#include <stdio.h>\n{declarations}\nint main(void) {{ printf("%d\\n", {total}); }}\n')
    objects = ' '.join(f'{name}.o' for name in names)
    (root / 'Makefile').write_text(
        f'CFLAGS = -O1\nOBJECTS = main.o {objects}\nprogram: $(OBJECTS)\n\t$(CC) -o $@ $(OBJECTS)\n'
        'clean:\n\trm -f program *.o\n')
    return files * (files + 1) // 2
