// What the same event costs two other implementations of ADK's sessions, in memory: @google/adk and
// adk-typescript, when they are installed below FOLDER (npm install --prefix FOLDER @google/adk
// adk-typescript). Prints the lines that bench/history.c prints: implementation, events of history,
// microseconds of an append (median), of a get (median). Slow by the square of the history, so it
// ends at 10,000 events.
//   node bench/peers.cjs FOLDER
'use strict';
const fs = require('fs');
const path = require('path');
const Module = require('module');
const {performance} = require('perf_hooks');

const modules = path.join(path.resolve(process.argv[2] || '.'), 'node_modules');
const SIZES = [1, 10, 100, 1000, 10000];

// adk-typescript asks for files by names in another case than they have, which only some file
// systems forgive.
const resolve = Module._resolveFilename;
Module._resolveFilename = function (request, ...rest) {
  try {
    return resolve.call(this, request, ...rest);
  } catch (error) {
    const name = path.basename(request);
    const other = path.join(path.dirname(request), name[0].toLowerCase() + name.slice(1));
    return resolve.call(this, request.startsWith('./') ? './' + other : other, ...rest);
  }
};

const TEXT = 'Your table for two at the window is booked for half past seven, as you wished; shall I call a taxi?';

// The typical event, as bench/bench.h has it.
function eventFields(number) {
  const step = 1000000 + number;
  return {
    id: '019c' + String(number).padStart(32, '0'),
    invocationId: 'e-1',
    timestamp: 1763700000 + number * 1e-3,
    author: 'concierge',
    content: {role: 'model', parts: [{text: TEXT}]},
    actions: {stateDelta: {'app:served': step, step, 'user:wish': 'taxi ' + step}, artifactDelta: {}},
  };
}

const median = (values) => values.sort((a, b) => a - b)[values.length >> 1];

async function timed(count, work) {
  const times = [];
  for (let i = 0; i < count; i++) {
    const start = performance.now();
    await work(i);
    times.push((performance.now() - start) * 1e3);
  }
  return median(times);
}

async function measure(name, service, append) {
  const who = {appName: 'hotel', userId: 'ann', sessionId: 's'};
  const session = await service.createSession(who);
  let number = 0;
  for (const size of SIZES) {
    while (number < size) await append(session, eventFields(number++));
    const block = Math.max(5, Math.min(200, size / 10));
    const appended = await timed(block, () => append(session, eventFields(number++)));
    const got = await timed(size > 1000 ? 5 : 50, () => service.getSession(who));
    console.log([name, size, appended.toFixed(2), got.toFixed(2)].join('\t'));
  }
}

async function google() {
  const folder = path.join(modules, '@google', 'adk');
  if (!fs.existsSync(folder)) return;
  const {InMemorySessionService, createEvent} = require(folder);
  const service = new InMemorySessionService();
  const append = (session, fields) => service.appendEvent({session, event: createEvent(fields)});
  await measure('@google/adk', service, append);
}

async function typescript() {
  const folder = path.join(modules, 'adk-typescript', 'dist');
  if (!fs.existsSync(folder)) return;
  const {InMemorySessionService} = require(path.join(folder, 'sessions', 'inMemorySessionService.js'));
  const {Event} = require(path.join(folder, 'events', 'Event.js'));
  const service = new InMemorySessionService();
  const print = console.log;
  console.debug = console.info = () => {}; // it logs what it does, which would be measured too
  console.log = (line) => (String(line).startsWith('adk-typescript\t') ? print(line) : undefined);
  const append = (session, fields) => service.appendEvent({session, event: new Event(fields)});
  await measure('adk-typescript', service, append);
}

(async () => {
  await google();
  await typescript();
})().catch((error) => {
  console.error('bench: ' + error.message);
  process.exit(1);
});
