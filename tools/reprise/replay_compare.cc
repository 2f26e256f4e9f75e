// All eviction policies on one trace, at several budgets, in one table.

#include <cstdio>

#include "tools/reprise/json_text.h"
#include "tools/reprise/replay.h"

namespace reprise::tools {

int compare_policies(const ReplayOptions& options) {
  std::string table = "| policy |", rule = "|---|", json;
  for (const double mb : options.compare_mb) {
    char cell[64];
    std::snprintf(cell, sizeof cell, " %.4g GB |", mb / 1000);
    table += cell;
    rule += "---|";
  }
  table += "\n" + rule + "\n";
  for (const std::string& policy : replay_policy_names()) {
    std::string rates;
    table += "| " + policy + " |";
    for (const double mb : options.compare_mb) {
      ReplayOptions one = options;
      one.policy = policy;
      one.budget_mb = mb;
      const double rate = replay_trace(one).hit_rate();
      char cell[64];
      std::snprintf(cell, sizeof cell, " %.2f |", 100 * rate);
      table += cell;
      std::snprintf(cell, sizeof cell, "%s%.9g", rates.empty() ? "" : ", ", rate);
      rates += cell;
    }
    table += "\n";
    json += (json.empty() ? "" : ", ") + json_string(policy) + ": [" + rates + "]";
  }
  const std::string out = options.json ? "{\"trace\": " + json_string(options.trace.filename().string()) +
                                             ", \"token_hit_rates\": {" + json + "}}\n"
                                       : table;
  std::fwrite(out.data(), 1, out.size(), stdout);
  return 0;
}

}  // namespace reprise::tools
