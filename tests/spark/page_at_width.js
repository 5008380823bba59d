// Runs the page's script on a stand-in for a browser's document, as wide as asked for: `node page_at_width.js PAGE WIDTH`.
// Prints the picture of takeovers: its size, and where each text in it stands. A browser itself is not among the tests' tools.
"use strict";
const fs = require("fs");
const [page, width] = [fs.readFileSync(process.argv[2], "utf8"), Number(process.argv[3])];
const made = id => ({
  id, tag: id, attributes: {}, kids: [], style: {}, textContent: "", hidden: false, clientWidth: width, clientHeight: 600, scrollTop: 0,
  classList: {toggle() {}}, get children() { return this.kids; }, get offsetWidth() { return 100; }, get offsetHeight() { return 20; },
  get parentElement() { return made("parent"); },
  setAttribute(k, v) { this.attributes[k] = String(v); }, addEventListener() {}, getBoundingClientRect: () => ({left: 0, width}), remove() {},
  append(...kids) { this.kids.push(...kids); }, prepend(...kids) { this.kids.unshift(...kids); }, replaceChildren(...kids) { this.kids = kids; },
});
const byId = new Map();
const named = id => byId.get(id) || byId.set(id, made(id)).get(id);
named("data").textContent = page.match(/<script type="application\/json" id="data">([\s\S]*?)<\/script>/)[1];
const element = tag => ({...made(tag), tag, get children() { return this.kids; }});
global.document = {getElementById: named, createElement: element, createElementNS: (_, tag) => element(tag)};
global.window = {addEventListener() {}};
global.Node = class {};
global.innerWidth = width;
global.innerHeight = 900;
global.requestAnimationFrame = f => f();
(0, eval)(page.match(/<script>\n([\s\S]*?)<\/script>/)[1].replace('"use strict";', ""));
const all = node => [node, ...(node.kids || []).flatMap(k => typeof k === "object" ? all(k) : [])];
const picture = all(named("takeovers")).find(n => n.tag === "svg");
const texts = all(picture).filter(n => n.tag === "text").map(n => ({text: n.textContent, x: Number(n.attributes.x), anchor: n.attributes["text-anchor"] || "start", y: Number(n.attributes.y)}));
const dots = all(picture).filter(n => n.tag === "circle").map(n => Number(n.attributes.cx));
console.log(JSON.stringify({viewBox: picture.attributes.viewBox.split(" ").map(Number), width: Number(picture.attributes.width), texts, dots}));
