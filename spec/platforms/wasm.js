// What a program of Emscripten does not have of node by itself: its environment, and pipes that have
// names, which are read and written at no position. AddressSanitizer would take the call stack of
// each allocation, for ten times as long, and keep 256 MB of what is freed, for which there is no
// room.
Module.preRun = () => {
  Object.assign(ENV, process.env);
  const open = FS.open;
  FS.open = (...words) => {
    const stream = open(...words);
    if (require("fs").fstatSync(stream.nfd).isFIFO()) stream.seekable = false;
    return stream;
  };
};
Module.ASAN_OPTIONS = "malloc_context_size=0:quarantine_size_mb=16";
