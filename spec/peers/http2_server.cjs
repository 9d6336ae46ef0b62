// A server that speaks HTTP/2, for http2_spec.lua: node spec/peers/http2_server.cjs KEY CERT [h1]
// It prints its port and answers every request with the number of the connection that it came over,
// as soon as so many have come as their header X-Together says.
// With h1 it speaks HTTP/1.1 only. It ends with its standard input.
const fs = require("fs");
const http2 = require("http2");
const https = require("https");

const [key, cert, only] = process.argv.slice(2);
const options = { key: fs.readFileSync(key), cert: fs.readFileSync(cert), allowHTTP1: true };
const server = only ? https.createServer(options) : http2.createSecureServer(options);

let connections = 0, waiting = [];
server.on("secureConnection", (socket) => { socket.number = ++connections; });
server.on("request", (request, response) => {
  const session = request.stream && request.stream.session;
  response.setHeader("x-http", request.httpVersion);
  response.setHeader("x-connection", (session ? session.socket : request.socket).number);
  waiting.push(response);
  if (waiting.length < Number(request.headers["x-together"] || 1)) return;
  for (const each of waiting) each.end("ok");
  waiting = [];
});
server.listen(0, "127.0.0.1", () => console.log(server.address().port));
process.stdin.resume().on("end", () => process.exit());
