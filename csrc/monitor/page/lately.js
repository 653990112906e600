// lately.js: what lasted: what the last pictures of a program have in common. A hint says nothing that one picture shows only.

// ms, but for `pictures`, `turn` and `often`.
export const LIMITS = {
  lately: 10000, // how far back the page looks
  pictures: 4, // fewer say nothing
  often: 0.25, // the share of pictures that is often,
  least: 3, // if they are so many
  long: 5000, // a wait that is mentioned
  lonely: 10000, // and one without anybody at the other end
  stuck: 30000, // when nothing has moved for so long, it is no matter of speed any more
  turn: 100, // ms of the loop in which nobody else runs
};

// For specs, whose programs are quicker: shortens what is waited for. Returns a function that undoes it.
export function scale(factor) {
  const kept = { ...LIMITS };
  for (const key of ["lately", "long", "lonely", "stuck"]) LIMITS[key] *= factor;
  return () => Object.assign(LIMITS, kept);
}

const isRecent = (one, at) => at - one.at <= LIMITS.lately;

// Adds to a list what a picture shows, and takes off what is too old.
function note(list, one) {
  list.push(one);
  while (!isRecent(list[0], one.at)) list.shift();
}

// The pictures of the last seconds, as far as they are kept.
export class Lately {
  constructor() {
    this.pictures = [];
    this.longest = null; // the longest turn since the last picture; null: before the first one, whose turn counts from anywhere
  }

  // Takes any message: a picture may need several.
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

  // How far back the pictures go, in ms.
  get span() { return this.n ? this.pictures[this.n - 1].at - this.pictures[0].at : 0; }

  // The least number of puts that waited in any of the pictures, by the patterns of channels.
  get most() {
    const [first, ...rest] = this.pictures;
    return new Map([...(first?.waiting || [])].map(([pattern, n]) => [pattern, Math.min(n, ...rest.map((p) => p.waiting.get(pattern) || 0))]));
  }

  // The pictures in which the loop did not look at timers for long.
  get turns() { return this.pictures.filter(({ turn }) => turn >= LIMITS.turn); }
}

// In how many of the last pictures puts waited on a channel, and of how many it was there.
export function waitsOf({ recent }) {
  return { k: recent.filter(({ waits }) => waits).length, n: recent.length };
}

export const shareOf = (ch) => (ch.recent.length ? waitsOf(ch).k / ch.recent.length : 0);

// "in 12 of the last 20 pictures"
export const inPictures = ({ k, n }) => (k === n ? `in each of the last ${n} pictures` : k === 0 ? `in none of the last ${n} pictures`
  : `in ${k} of the last ${n} pictures`);
