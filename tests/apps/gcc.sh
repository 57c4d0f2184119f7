#!/usr/bin/env bash
# gcc, g++ and make: building and running.
. "$(dirname "$0")/lib.sh"
need gcc

setup() {
  printf '#include <stdio.h>\nint main(int argc, char** argv) { printf("hello %%d\\n", argc); return 3; }\n' >hello.c
  printf 'int square(int x) { return x * x; }\n' >square.c
  printf '#include <stdio.h>\nint square(int);\nint main() { printf("%%d\\n", square(12)); }\n' >main.c
  printf '#include <iostream>\n#include <map>\n#include <string>\n#include <thread>\n#include <vector>\nint main() { std::map<std::string, int> m{{"a", 1}}; std::vector<std::thread> t; int s[4] = {}; for (int i = 0; i < 4; i++) t.emplace_back([&, i] { s[i] = i; }); for (auto& x : t) x.join(); std::cout << m["a"] + s[3] << std::endl; try { throw std::string("caught"); } catch (std::string& e) { std::cout << e << "\\n"; } }\n' >prog.cc
  printf 'all: prog\nprog: main.o square.o\n\tgcc -o $@ $^\n%%.o: %%.c\n\tgcc -c -O2 $<\nclean:\n\trm -f *.o prog\n' >Makefile
}

same hello 'gcc -o hello hello.c && ./hello a b; echo $?; rm hello'
same optimised_static 'gcc -O2 -static -o hello hello.c && ./hello; echo $?; rm hello'
same pie_and_no_pie 'gcc -no-pie -o a hello.c && ./a; gcc -pie -fPIE -o b hello.c && ./b; rm a b'
same pipe_mode 'gcc -pipe -g -Wall -c main.c square.c && gcc -o prog main.o square.o && ./prog; nm main.o | wc -l; rm -f *.o prog'
same libraries 'gcc -c -fPIC square.c && ar rcs libs.a square.o && gcc -o p1 main.c libs.a && ./p1; gcc -shared -o libsq.so square.o && gcc -o p2 main.c -L. -lsq -Wl,-rpath,"\$ORIGIN" && ./p2; LD_DEBUG=libs ./p2 2>&1 | grep -c libsq >/dev/null; ldd p2 | grep -c libsq; rm -f *.o *.a *.so p1 p2'
same cplusplus 'command -v g++ >/dev/null || exit 77; g++ -O1 -std=c++17 -pthread -o prog prog.cc && ./prog; rm prog'
same make_ 'command -v make >/dev/null || exit 77; make -j4 2>&1 | sort; ./prog; make; touch square.c; make -s; make clean'
same errors 'echo "int main() { return undeclared; }" >bad.c; gcc bad.c; echo $?; gcc -c nothing.c; echo $?; echo "int f(); int main() { return f(); }" >link.c; gcc link.c 2>/dev/null; echo $?; ls *.o a.out 2>/dev/null'
same preprocessor 'gcc -E hello.c | tail -1; gcc -MM main.c; gcc -S -o - square.c | grep -c square; echo "#include <stdlib.h>" | gcc -E -x c - | wc -l; gcc -dumpmachine; gcc -print-search-dirs | head -1'
same crash 'printf "int main() { *(volatile int*)8 = 1; }" >c.c; gcc -o c c.c && ./c 2>/dev/null; echo $?; printf "#include <stdlib.h>\nint main() { abort(); }" >d.c; gcc -o d d.c && ./d 2>/dev/null; echo $?; rm c d'
same address_sanitizer 'printf "#include <stdlib.h>\nint main(int c, char** v) { char* p = malloc(10); p[c + 3] = 1; int r = p[4]; free(p); return r; }" >s.c; gcc -fsanitize=address,undefined -o s s.c 2>/dev/null || exit 77; export ASAN_OPTIONS=detect_leaks=0; ./s; echo $?; rm s'
finish
