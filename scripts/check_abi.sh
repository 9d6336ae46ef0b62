#!/bin/bash
# Programs that were built with an older or a newer header run with this library, as "Option
# structs" in moonpad.h says.
#   scripts/check_abi.sh BUILD FOLDER
#     BUILD: the libraries, made by `make`; FOLDER: where the others are made
# "Newer" is this library with a field added at the end of each option struct, built with
# AddressSanitizer, as the programs are.
set -eu
cd "$(dirname "$0")/.."
build=$1 folder=$2
cp -r Makefile make include src lua scripts "$folder"
sed -i -E 's/^(\} moonpad_[a-z_]*options;)/  int64_t grown; \/* of a later version; 0 *\/\n\1/' "$folder"/include/*.h
grown=$(cat "$folder"/include/*.h | grep -c 'int64_t grown;')
[ "$grown" -ge 6 ] || { echo "only $grown structs have grown"; exit 1; }
make -s -j"$(nproc)" -C "$folder" BUILD=built CC=gcc SANITIZE=address,undefined CFLAGS="-O0 -g" \
  built/libmoonpad.a built/libmoonpad_lua.a >/dev/null

# shellcheck disable=SC2046 # pkg-config prints a list of words
program() { # NAME HEADERS LIBRARIES FLAGS...
  gcc -std=c11 -Wall -Wextra -Werror -fsanitize=address,undefined -fno-sanitize-recover=all \
    -g "${@:4}" -o "$folder/$1" \
    spec/abi/program.c -I"$2" $(pkg-config --cflags lua5.4) "$3/libmoonpad_lua.a" "$3/libmoonpad.a" -Wl,-E \
    $(pkg-config --libs lua5.4) -lsqlite3 -lpthread -lm
}
program old include "$folder/built"
program new "$folder/include" "$build" -DGROWN
program same "$folder/include" "$folder/built" -DGROWN
"$folder/old"
"$folder/new" unsupported
"$folder/same" ok
