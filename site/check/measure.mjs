// measure.mjs: what is seen on a page. Each function runs in the browser, and returns a list of complaints.

// Texts with less contrast than 4.5 to what is behind them.
export function faintTexts() {
  const least = 4.5, found = new Set();
  const parse = (text) => (text.match(/[\d.]+/g) || [0, 0, 0, 0]).map(Number);
  const over = ([r, g, b, a = 1], [R, G, B]) => [r * a + R * (1 - a), g * a + G * (1 - a), b * a + B * (1 - a)];
  const light = (colour) => {
    const [r, g, b] = colour.map((v) => (v / 255 <= 0.04045 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ratio = (a, b) => {
    const [x, y] = [light(a), light(b)].sort((p, q) => q - p);
    return (x + 0.05) / (y + 0.05);
  };
  const isClear = (colour) => colour.length === 4 && colour[3] === 0;
  const ground = (element) => {
    const layers = [];
    for (let at = element; at; at = at.parentElement) {
      const colour = parse(getComputedStyle(at).backgroundColor);
      if (!isClear(colour)) layers.unshift(colour);
    }
    return layers.reduce((below, layer) => over(layer, below), [255, 255, 255]);
  };
  // Behind a text of an SVG are the rectangles of its group that it lies on.
  const grounds = (element) => {
    if (!element.closest("svg")) return [ground(element)];
    const boxes = element.parentElement.tagName === "g" ? [...element.parentElement.querySelectorAll("rect")] : [];
    const text = element.getBoundingClientRect();
    const isBehind = (r) => r.width > 0 && r.left < text.right && r.right > text.left && r.top < text.bottom && r.bottom > text.top;
    const fills = boxes.filter((r) => isBehind(r.getBoundingClientRect())).map((r) => getComputedStyle(r).fill).filter((fill) => fill !== "none").map(parse);
    return fills.length ? fills : [ground(element)];
  };
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node; (node = walker.nextNode());) {
    const element = node.parentElement, style = getComputedStyle(element);
    if (!node.data.trim() || !element.getClientRects().length || style.visibility === "hidden" || element.closest(":disabled, script, style, .anchor")) continue;
    const isSvg = !!element.closest("svg"), own = parse(isSvg ? style.fill : style.color);
    if (isClear(own)) continue; // the editor's text field, whose text is seen in colours
    for (const behind of grounds(element)) {
      const contrast = ratio(over(own, behind), behind);
      if (contrast < least) found.add(`${contrast.toFixed(2)}: "${node.data.trim().slice(0, 30)}" (${element.tagName} .${element.getAttribute("class")})`);
    }
  }
  return [...found];
}

// What is to be touched and is smaller than 44 pixels. Links inside a text are as high as it.
export function smallTargets() {
  const found = [];
  for (const element of document.querySelectorAll("a, button, select, input, textarea, summary")) {
    const target = element.type === "checkbox" ? element.closest("label") : element, { width, height } = target.getBoundingClientRect();
    if (!width || getComputedStyle(target).display === "inline" || element.closest(".skip, #link[hidden]")) continue;
    if (width < 43.5 || height < 43.5) found.push(`${Math.round(width)} × ${Math.round(height)}: ${target.outerHTML.slice(0, 80)}`);
  }
  return found;
}

// Words of code in the first cells and the headers of tables that are broken into two lines.
export function brokenNames() {
  const found = [];
  for (const code of document.querySelectorAll("td:first-child code, th code")) {
    const walker = document.createTreeWalker(code, NodeFilter.SHOW_TEXT), range = document.createRange();
    for (let node, last; (node = walker.nextNode()); last = node) {
      for (const { 0: word, index } of node.data.matchAll(/\S+/g)) {
        range.setStart(node, index);
        if (index === 0 && last && /\S$/.test(last.data)) range.setStart(last, last.data.search(/\S+$/)); // a word of two elements
        range.setEnd(node, index + word.length);
        if (new Set([...range.getClientRects()].map((r) => Math.round(r.top))).size > 1) found.push(range.toString());
      }
    }
  }
  return found;
}

// What is cut off, and cannot be scrolled to.
export function cutOff() {
  const found = [];
  for (const element of document.querySelectorAll("body *")) {
    const { overflowX, overflowY, textOverflow } = getComputedStyle(element);
    if (element.closest("svg, .hidden, iframe, .editor") || !element.clientWidth || textOverflow === "ellipsis") continue;
    const isCut = (overflow, inner, outer) => /hidden|clip/.test(overflow) && inner > outer + 1;
    if (element.matches("button, select, .button") && element.scrollWidth > element.clientWidth + 1) found.push(`wider than itself: ${element.outerHTML.slice(0, 80)}`);
    if (isCut(overflowX, element.scrollWidth, element.clientWidth) || isCut(overflowY, element.scrollHeight, element.clientHeight)) {
      found.push(element.outerHTML.slice(0, 80));
    }
  }
  if (document.scrollingElement.scrollWidth > innerWidth) found.push(`the page is ${document.scrollingElement.scrollWidth} pixels wide`);
  return found;
}
