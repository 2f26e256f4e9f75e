// What tests tell the server of staged.py.

import { open, STAGED } from './browser.mjs';

export const post = (path, body = {}) => fetch(STAGED + path, { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(body) });
/** The bodies of the chats since the page was opened. */
export const requests = async () => (await fetch(STAGED + '/stage/requests')).json();
/** Lets a reply that waits take so many steps. */
export const step = (times = 1) => Promise.all(Array.from({ length: times }, () => post('/stage/step')));
export async function openStaged(browser, options) {
  await post('/stage/reset');
  return open(browser, STAGED + '/', options);
}
