#!/bin/bash
# The projects of examples/cmake, each with moonpad as its CMakeLists.txt says: in a folder, fetched
# as an archive, installed by make and installed by CMake.
#   scripts/check_cmake.sh BUILD FOLDER      FOLDER is an empty one
set -eu
cd "$(dirname "$0")/.."
build=$1 folder=$2
CMAKE_BUILD_PARALLEL_LEVEL=$(nproc)
export CMAKE_BUILD_PARALLEL_LEVEL

project() { # NAME PROGRAM CMAKE'S ARGUMENTS...
  local name=$1 program=$2
  shift 2
  cmake -S "examples/cmake/$name" -B "$folder/$name" "$@" && cmake --build "$folder/$name" &&
    [ -x "$folder/$name/$program" ]
}

cat >"$folder/agent.lua" <<'LUA'
return require("moonpad").agent { name = "echo", model = function() return "Hello." end }
LUA

project subdirectory village
"$folder/subdirectory/village" --frames 30 "$folder/village.db"

# As a release is made, but with what is here now.
tar -czf "$folder/moonpad.tar.gz" CMakeLists.txt moonpadConfig*.in include src lua scripts
project fetch guard -DMOONPAD_URL="$folder/moonpad.tar.gz"
"$folder/fetch/guard" "$folder/gate.db"
"$folder/fetch/guard" "$folder/gate.db" | grep -F "let in 2"

make BUILD="$build" install-lib PREFIX="$folder/by-make"
cmake -S . -B "$folder/moonpad" && cmake --build "$folder/moonpad" &&
  cmake --install "$folder/moonpad" --prefix "$folder/by-cmake"
for prefix in by-make by-cmake; do
  rm -rf "$folder/installed"
  project installed tavern -DCMAKE_PREFIX_PATH="$folder/$prefix"
  echo "Hi." | LUA_PATH='?' "$folder/installed/tavern" "$folder/agent.lua" "$folder/$prefix.db" | grep -F "Hello."
done
