@rem The moonpad command on Windows. LUA_PROGRAM: the Lua 5.4 that runs it, if it is not called lua.
@if not defined LUA_PROGRAM set LUA_PROGRAM=lua
@"%LUA_PROGRAM%" "%~dp0moonpad" %*
