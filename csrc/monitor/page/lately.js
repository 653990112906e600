// lately.js: the last pictures of the program, for the hints: a hint says only what several pictures show.

// Times are in ms.
export const LIMITS = {
  lately: 10000, // how far back the page looks
  pictures: 4, // with fewer there are no hints
  often: 0.25, // "often" is in this share of the pictures,
  least: 3, // and in at least so many
  long: 5000, // a wait of this time is mentioned
  lonely: 10000, // the same if nobody has come to the other end
  stuck: 30000, // if nothing has moved for so long, the cause is not that somebody is slow
  turn: 100, // Lua has computed for this time without a look at its timers
};

// For specs, which shall not take long: makes the times shorter. Returns a function that undoes it.
export function scale(factor) {
  const kept = { ...LIMITS };
  for (const key of ["lately", "long", "lonely", "stuck"]) LIMITS[key] *= factor;
  return () => Object.assign(LIMITS, kept);
}

const isRecent = (one, at) => at - one.at <= LIMITS.lately;

// Adds an entry for a picture to a list, and removes entries that are too old.
function note(list, one) {
  list.push(one);
  while (!isRecent(list[0], one.at)) list.shift();
}

// What is kept of the pictures of the last seconds.
export class Lately {
  constructor() {
    this.pictures = [];
    this.longest = null; // the longest turn since the last picture; null before the first one, whose turn may have begun long ago
  }

  // Called with each message, of which a picture may need several: notes its turn.
  turn({ turn, virtual }) {
    if (this.longest !== null && turn && !virtual) this.longest = Math.max(this.longest, turn);
  }

  // Takes a new picture, which is complete.
  add({ at, ran }, chans) {
    const waiting = new Map(); // puts, by the patterns of channels
    for (const ch of chans) {
      note(ch.recent, { at, waits: ch.nputs >= ch.n });
      if (ch.nputs) waiting.set(ch.pattern, (waiting.get(ch.pattern) || 0) + ch.nputs);
    }
    note(this.pictures, { at, turn: this.longest || 0, ran: ran || "", waiting });
    this.longest = 0;
  }

  get n() { return this.pictures.length; }
  get isEnough() { return this.n >= LIMITS.pictures; }

  // The time from the oldest picture to the last, in ms.
  get span() { return this.n ? this.pictures[this.n - 1].at - this.pictures[0].at : 0; }

  // By the patterns of channels: how many puts waited in each of the pictures, at least.
  get most() {
    const [first, ...rest] = this.pictures;
    return new Map([...(first?.waiting || [])].map(([pattern, n]) => [pattern, Math.min(n, ...rest.map((p) => p.waiting.get(pattern) || 0))]));
  }

  // The pictures before which the loop did not look at its timers for long.
  get turns() { return this.pictures.filter(({ turn }) => turn >= LIMITS.turn); }
}

// Of a channel: in how many of the last pictures puts waited on it, and how many pictures have it.
export function waitsOf({ recent }) {
  return { k: recent.filter(({ waits }) => waits).length, n: recent.length };
}

export const shareOf = (ch) => (ch.recent.length ? waitsOf(ch).k / ch.recent.length : 0);

// "in 12 of the last 20 pictures"
export const inPictures = ({ k, n }) => (k === n ? `in each of the last ${n} pictures` : k === 0 ? `in none of the last ${n} pictures`
  : `in ${k} of the last ${n} pictures`);
