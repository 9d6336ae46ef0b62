--- Names that mean something to some store, shell, path or pattern, and names that look or sort
--- like others; each is a user, an app and a session of its own.
return {
  "a", "b", "A", "a ", " a", "a\t", "a/b", "a/b/c", "/", "a:b", "a::b", ":", "a\\b", "a|b", "a,b", "a;b", "a.b", "..",
  -- Patterns
  "../a", "*", "?", "a*", "%", "_", "a%", "a_", "__", "%%", "[a]", "{a}", "a\nb", "^a", "a$", ".*", "a?", "%a", "%s",
  -- SQL, full-text search, JSON, shells
  "'", "''", "\"", "`", "a' OR '1'='1", "'; DROP TABLE sessions; --", "a\" OR \"\"=\"", "a--", "a/*", "?1",
  ":name", "@a",
  "a') UNION SELECT 1 --", "\\", "\\'", "a\\", "OR", "NEAR(a b)", "owner:1", "\"a\"", "$a", "${a}", "$(a)",
  "a%2Fb", "%00",
  "[]", "[0.0,\"a\",\"s\"]", "a\",\"b",
  -- Values of other types
  "NULL", "null", "nil", "true", "0", "1", "-1", "00", "1.0", "1e0", "0x1", "+1", "18446744073709551616", "nan",
  -- Prefixes of state keys and names of tables
  "user:", "app:", "temp:", "user:a", "app:a", "session", "sessions", "sqlite_master",
  -- Composed and decomposed, look-alikes, case pairs, what is invisible
  "é", "e\u{301}", "Å", "A\u{30A}", "\u{212B}", "а", "ａ", "K", "\u{212A}", "k", "s", "ſ", "\u{3A3}", "\u{3C3}",
  "\u{3C2}",
  "a\u{200B}", "a\u{FEFF}", "\u{FEFF}a", "a\u{200D}", "\u{202E}a", "a\u{A0}", "a\u{3000}", "a\u{2028}", "İ",
  "i", "ı", "I",
  "ß", "ss", "ẞ", "ﬁ", "fi", "🌙", "\u{10FFFF}", "\u{1}", "\u{7F}", "\u{FFFD}", "\u{1F3FB}",
  -- As long as a name may be
  ("x"):rep(255), ("x"):rep(254), ("é"):rep(127) .. "x", ("x"):rep(254) .. "y",
}
