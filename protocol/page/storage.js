// The browser's storage, or, where it allows none, one that lasts as long as the page.

class PageStorage {
  #items = new Map();
  getItem(key) { return this.#items.get(key) ?? null; }
  setItem(key, value) { this.#items.set(key, String(value)); }
  removeItem(key) { this.#items.delete(key); }
  key(index) { return [...this.#items.keys()][index] ?? null; }
  get length() { return this.#items.size; }
}

function named(name) {
  try {
    window[name].getItem('reprise');
    return window[name];
  } catch {
    return new PageStorage();
  }
}

/** Outlasts the tab. */
export const local = named('localStorage');
/** Ends with it. */
export const session = named('sessionStorage');

export const keysOf = storage => Array.from({ length: storage.length }, (_, i) => storage.key(i));
