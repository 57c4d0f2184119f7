#!/usr/bin/env bash
# Builds: g++ with a heavy header at -O2, make -j4, cmake, and this project's own unit tests.
. "$(dirname "$0")/lib.sh"
need g++ make cmake ninja
source_dir=$(cd "$(dirname "$0")/../.." && pwd)
inside_timeout=${UKS_INSIDE_TIMEOUT:-1800}

same regex 'cat >r.cc <<"X"
#include <iostream>
#include <regex>
#include <string>
int main() {
  std::regex word("([a-z]+)@([a-z]+\\.org)");
  std::string text = "to ann@example.org and bob@example.org";
  for (std::sregex_iterator i(text.begin(), text.end(), word), end; i != end; ++i) std::cout << (*i)[1] << " at " << (*i)[2] << "\n";
}
X
g++ -O2 -Wall r.cc -o r && ./r; rm r'

same make_j4 'for i in $(seq 24); do echo "int f$i(int x) { return x * $i; }" >f$i.c; done
{ for i in $(seq 24); do echo "int f$i(int);"; done; echo "#include <stdio.h>"; echo "int main(void) { int s = 0;"; for i in $(seq 24); do echo "s += f$i(2);"; done; echo "printf(\"%d\\n\", s); return 0; }"; } >main.c
printf "OBJ := main.o %s\nprog: \$(OBJ)\n\t@cc -o \$@ \$^\n%%.o: %%.c\n\t@cc -c -O1 -o \$@ \$<\n" "$(for i in $(seq 24); do printf "f$i.o "; done)" >Makefile
make -s -j4 && ./prog; touch f3.c; make -j4 -n | grep -c -- -c; make -q; echo $?; rm -f *.o prog'

same cmake_project 'mkdir -p src; cat >CMakeLists.txt <<"X"
cmake_minimum_required(VERSION 3.20)
project(demo C CXX)
enable_testing()
find_package(Threads REQUIRED)
add_library(part STATIC src/part.cc)
add_executable(demo src/demo.cc)
target_link_libraries(demo part Threads::Threads)
add_test(NAME runs COMMAND demo)
X
echo "int part() { return 42; }" >src/part.cc
printf "#include <thread>\n#include <cstdio>\nint part();\nint main() { int r = 0; std::thread([&] { r = part(); }).join(); std::printf(\"%%d\\\\n\", r); return r != 42; }\n" >src/demo.cc
t=$(mktemp -d)
cmake -S . -B "$t/b" >"$t/log" 2>&1 || tail -20 "$t/log"; cmake --build "$t/b" -j4 >"$t/log" 2>&1 || tail -20 "$t/log"; "$t/b/demo"; ctest --test-dir "$t/b" 2>&1 | grep "tests passed"
cmake -S . -B "$t/c" -G Ninja >/dev/null && ninja -C "$t/c" >"$t/log" && tail -1 "$t/log" | cut -d" " -f1; ninja -C "$t/c" | tail -1; rm -rf "$t"'

# This project's own unit tests, built by cmake and make -j4 inside (without optimisation: it is half an
# hour of compiler time otherwise), and run there.
self_build() {
  local rc
  fresh
  (cd "$source_dir" && tar c --exclude=./build --exclude=./.git .) | tar x || return 1
  inside -- bash -c '
    set -e
    cmake -S . -B b -DCMAKE_BUILD_TYPE=None -DCMAKE_CXX_FLAGS=-O0 -DUKS_STATIC=OFF >log 2>&1 || { tail log; exit 1; }
    make -C b -j4 unit_tests >log 2>&1 || { tail -20 log; exit 1; }
    b/tests/unit_tests --gtest_brief=1 | tail -3' >"$base/self" 2>&1
  rc=$?
  cat "$base/self"
  ((rc == 0)) && grep -q 'PASSED' "$base/self"
}
check own_unit_tests self_build
finish
