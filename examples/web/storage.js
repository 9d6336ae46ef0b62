"use strict";
// One file in IndexedDB: a save is there whole, or not at all, and whoever asked for it hears which. (Emscripten's own
// IDBFS saves file by file, knows what has changed by times in milliseconds, and says nothing where there is no room.)
//
//   const storage = await openStorage("inn");  // storage.file: what was saved last, a Uint8Array; undefined: nothing
//   await storage.save(takeFile);              // takeFile() gives the bytes; rejects when they could not be saved
async function openStorage(name) {
  const answer = (request) => new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
  const opening = indexedDB.open(name, 1);
  opening.onupgradeneeded = () => opening.result.createObjectStore("files");
  const database = await answer(opening);

  const put = (bytes) => new Promise((resolve, reject) => {
    const change = database.transaction("files", "readwrite", { durability: "strict" });
    change.objectStore("files").put(bytes, "file");
    change.oncomplete = resolve;
    change.onabort = () => reject(change.error || new Error("the browser broke it off"));
  });

  // One at a time. Those that are asked for meanwhile are one, which takes the file as it is when it begins.
  let last = Promise.resolve(), next = null, take;
  const save = (takeFile) => {
    take = takeFile;
    return next || (next = last.then(() => {
      next = null;
      const saved = put(take());
      last = saved.catch(() => {});
      return saved;
    }));
  };
  return { file: await answer(database.transaction("files").objectStore("files").get("file")), save };
}
