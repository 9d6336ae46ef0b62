#!/bin/bash
# The sources of the libraries that scripts/platforms.sh builds: Lua, modules that specs load, and
# cmocka as Debian has them, by the machine's own sources of packages, and SQLite in one file, with
# its shell, which an npm package has.
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
apt-get "${apt[@]}" source --download-only --tar-only lua5.4 lua-filesystem lua-cjson luasocket cmocka
mkdir sqlite
unpack() { mkdir "$1" && tar -xf "$2"_*.orig.tar.* -C "$1" --strip-components=1; } # FOLDER PACKAGE
unpack lua lua5.4
unpack filesystem lua-filesystem
unpack cjson lua-cjson
unpack socket luasocket
unpack cmocka cmocka

version=5.1.7
sha512="GGIyOiFaG+TUra3JIfkI/zGP8yZYLPQ0pl1bH+ODjiX57sPhrLU5sQJn1y9bDKZUFYkX1crlrPfSYt0BKKdkog=="
npm pack --silent "sqlite3@$version"
if [ "$(openssl dgst -sha512 -binary sqlite3-$version.tgz | base64 -w0)" != "$sha512" ]; then
  echo "sqlite3-$version.tgz is not the file that it was: nothing of it is used."
  exit 1
fi
tar -xzf sqlite3-$version.tgz -C sqlite --strip-components=2 --wildcards '*/sqlite-autoconf-*.tar.gz'
tar -xzf sqlite/sqlite-autoconf-*.tar.gz -C sqlite --strip-components=1

# For HTTP on Windows, which no package of Debian is for.
apt-get "${apt[@]}" source --download-only --tar-only curl
unpack curl curl
touch complete
