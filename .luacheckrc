std = "lua54"
max_line_length = 120
exclude_files = { "build", "build-*", "lua_modules" }
include_files = {
  "lua/**/*.lua", "spec/**/*.lua", "examples/**/*.lua", "bench/**/*.lua", "scripts/*.lua", "bin/moonpad", "*.rockspec",
  ".busted", ".luacheckrc",
}

files["spec/**/*_spec.lua"] = { std = "+busted" }
-- Suites and helpers that spec files share run inside busted as well.
files["spec/*.lua"] = { std = "+busted" }
-- Type declarations for editors: functions without a body.
files["lua/moonpad/meta/"] = { ignore = { "211", "212", "241" } }
files["*.rockspec"] = { std = "+rockspec" }
files[".luacheckrc"] = { std = "+luacheckrc" }
