// alike.js: which go blocks share one box of the graph: those whose names differ only in digits, and that use the same
// channels. So the four workers of a channel are one box. The filters of a sieve, each of which has channels of its own,
// are a box each. Go blocks of different flows never share one.

const NAMES = 40; // with more boxes than these, names that differ only in digits share one, whatever channels they use
const ROUNDS = 50; // of refine, at most

// A name with each run of digits replaced by #. Places ("job2.lua:3") and the names of stages of flows ("flow1.save at
// job2.lua:3") keep their digits. csrc/monitor/view.c uses the same rule for a program with too many names.
export function patternOf(name) {
  const [, place, rest] = name.match(/^(.*? at .*?:\d+)((?: -> chan: .*)?)$/s) || [null, "", name];
  return place + rest.replace(/\S*:\d+(?=\s|$)|:\d+|#?\d+/g, (digits) => (digits.includes(":") ? digits : "#"));
}

// Of the name of a go block of the library, "NAME at FILE:LINE", the part before "at": the name of a flow's stage, or a
// function of rn, as "pipe". Undefined for other names.
export const stageName = (name) => { const [, stage] = name.match(/^(.*?) at .*?:\d+(?: -> chan: .*)?$/s) || []; return stage; };

const covers = (more, less) => [...less].every((one) => more.has(one));

// One round of splitting classes: things stay in one class if their neighbours are in the same classes. Things are names, and
// their neighbours channels; or the other way round. `classes`: thing -> the number of its class, which is changed.
// `links`: thing -> [[side, neighbour]]. `neighbours`: neighbour -> its class. A thing that has only some of the neighbours of
// another one stays with it: it may not have used the others yet. Returns how many classes there are now.
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

// Classes to begin with: thing -> a number, the same for things with the same key.
function numbered(things, keyOf) {
  const keys = new Map(), classes = new Map();
  for (const thing of things) {
    const key = keyOf(thing);
    if (!keys.has(key)) keys.set(key, keys.size);
    classes.set(thing, keys.get(key));
  }
  return classes;
}

// The text of the box in which each name is shown: a Map. edges: [{ full: a name, chan, isPut }]; chanKey(id): the same value
// for channels that may share a box.
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
