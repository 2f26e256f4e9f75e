// The cache at work: what the replies of this browser were restored from.

import * as conversations from './conversations.js';
import { element } from './markdown.js';
import { kReasons, percent } from './report.js';

export class CacheView {
  constructor(host) {
    this.host = host;
  }

  open() {
    this.refresh();
  }

  close() {}

  refresh() {
    if (this.host.hidden) return;
    const reports = conversations.all().flatMap(one => Object.values(one.nodes)).filter(node => node.report).map(node => node.report);
    const sum = field => reports.reduce((total, report) => total + report[field], 0);
    const reasons = new Map();
    for (const report of reports) reasons.set(report.reason, (reasons.get(report.reason) ?? 0) + 1);
    this.host.replaceChildren(element('h2', {}, 'Replies kept in this browser'),
      element('p', {}, `${percent(sum('restored'), sum('prompt'))} of ${sum('prompt')} prompt tokens were restored, in ${reports.length} replies.`),
      element('ul', {}, ...[...reasons].map(([reason, count]) => element('li', {}, `${count} × ${reason}: ${kReasons[reason] ?? ''}`))));
  }
}
