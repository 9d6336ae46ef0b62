#!/bin/bash
# The sources of the libraries that scripts/platforms.sh builds: Lua and cmocka as Debian has them,
# by the machine's own sources of packages, and SQLite in one file, which an npm package has.
#   scripts/platform_sources.sh FOLDER
set -eu
folder=$1
rm -rf "$folder"
mkdir -p "$folder"/apt/{lists/partial,cache/archives/partial,parts}
cd "$folder"

# The lists of packages as they are, asked for their sources.
for file in /etc/apt/sources.list /etc/apt/sources.list.d/*; do
  [ -f "$file" ] || continue
  case $file in
    *.sources) sed 's/^Types:.*/Types: deb-src/' "$file" >"apt/parts/$(basename "$file")" ;;
    *.list) sed -n 's/^deb /deb-src /p' "$file" >"apt/parts/$(basename "$file")" ;;
  esac
done
apt=(-q -o Dir::Etc::SourceList=/dev/null -o Dir::Etc::SourceParts="$PWD/apt/parts"
  -o Dir::State::Lists="$PWD/apt/lists" -o Dir::Cache="$PWD/apt/cache" -o APT::Sandbox::User=)
apt-get "${apt[@]}" update
apt-get "${apt[@]}" source --download-only lua5.4 cmocka
mkdir lua cmocka sqlite
tar -xf lua5.4_*.orig.tar.* -C lua --strip-components=1
tar -xf cmocka_*.orig.tar.xz -C cmocka --strip-components=1

version=12.11.1
sha512="dq9AtApgg5PGFtBzPFSBl3HZQjHok5gaQCM6zh2Yk0aSmDCs1CbnVI8/HgASQkNKsWFpseIO9beg5xxpYhbIfA=="
npm pack --silent "better-sqlite3@$version"
if [ "$(openssl dgst -sha512 -binary better-sqlite3-$version.tgz | base64 -w0)" != "$sha512" ]; then
  echo "better-sqlite3-$version.tgz is not the file that it was: nothing of it is used."
  exit 1
fi
tar -xzf better-sqlite3-$version.tgz -C sqlite --strip-components=3 package/deps/sqlite3
touch complete
