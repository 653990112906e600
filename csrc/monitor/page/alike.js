// alike.js: which go blocks are shown as one: those whose names differ only in digits, and that cannot be told apart by the
// channels that they use. So four workers of one channel are one box, and the filters of a sieve are a chain. Go blocks of
// different flows are never one.

const NAMES = 40; // of go blocks; of more, those that differ only in digits are one
const ROUNDS = 50;

// A name with one # for each run of digits. Places ("job2.lua:3") and the names of stages of flows ("flow1.save at
// job2.lua:3") stay. csrc/monitor/view.c does the same where it folds.
export function patternOf(name) {
  const [, place, rest] = name.match(/^(.*? at .*?:\d+)((?: -> chan: .*)?)$/s) || [null, "", name];
  return place + rest.replace(/\S*:\d+(?=\s|$)|:\d+|#?\d+/g, (digits) => (digits.includes(":") ? digits : "#"));
}

// The name of the stage of a flow, or what else the library calls the go blocks of a place.
export const stageName = (name) => { const [, stage] = name.match(/^(.*?) at .*?:\d+(?: -> chan: .*)?$/s) || []; return stage; };

const covers = (more, less) => [...less].every((one) => more.has(one));

// Splits classes of things by their neighbours. `links`: thing -> [[side, neighbour]]. What has a part of the neighbours of
// another one of its class stays with it: it has not come to do the rest. Returns the number of classes.
function refine(classes, links, neighbours) {
  const lists = new Map();
  for (const [thing, number] of classes) {
    if (!lists.has(number)) lists.set(number, []);
    lists.get(number).push({ thing, has: new Set((links.get(thing) || []).map(([side, other]) => side + neighbours.get(other))) });
  }
  let n = 0;
  for (const list of lists.values()) {
    const parts = [];
    for (const one of list.sort((a, b) => b.has.size - a.has.size)) {
      let part = parts.find(({ has }) => covers(has, one.has));
      if (!part) parts.push(part = { has: one.has, number: n++ });
      classes.set(one.thing, part.number);
    }
  }
  return n;
}

function numbered(things, keyOf) {
  const keys = new Map(), classes = new Map();
  for (const thing of things) {
    const key = keyOf(thing);
    if (!keys.has(key)) keys.set(key, keys.size);
    classes.set(thing, keys.get(key));
  }
  return classes;
}

// What each name of go blocks is shown as. edges: [{ full, chan, isPut }], chanKey(id): what channels that are alike have
// in common.
export function shownNames(names, edges, chanKey) {
  const shown = new Map([...names].map((name) => [name, name])), patterns = new Map();
  for (const name of names) {
    const pattern = patternOf(name);
    patterns.set(pattern, [...(patterns.get(pattern) || []), name]);
  }
  if (patterns.size === names.size) return shown;
  const ofNames = new Map(), ofChans = new Map();
  const link = (map, key, one) => { if (!map.has(key)) map.set(key, []); map.get(key).push(one); };
  for (const { full, chan, isPut } of edges) {
    link(ofNames, full, [isPut ? ">" : "<", chan]);
    link(ofChans, chan, [isPut ? ">" : "<", full]);
  }
  const classes = numbered(names, patternOf), chans = numbered(ofChans.keys(), chanKey);
  for (let n = 0, before = -1, rounds = 0; n !== before && rounds < ROUNDS; rounds++) {
    before = n;
    n = refine(classes, ofNames, chans) + refine(chans, ofChans, classes);
  }
  const isMany = new Set(classes.values()).size > NAMES;
  for (const [pattern, list] of patterns) {
    const groups = new Map();
    for (const name of list) link(groups, isMany ? 0 : classes.get(name), name);
    for (const group of groups.values()) {
      const name = group.length === 1 ? group[0] : groups.size === 1 ? pattern : `${group[0]} and ${group.length - 1} alike`;
      for (const one of group) shown.set(one, name);
    }
  }
  return shown;
}
