// All eviction policies on one trace, at several budgets: their token hit rates, and how far each is from the best possible.

#include <algorithm>
#include <cstdio>
#include <map>

#include "tools/lab/replay.h"
#include "tools/reprise/json_text.h"

namespace reprise::tools {
namespace {

using Rates = std::vector<double>;  // one for each budget

std::string row_of(const std::string& name, const Rates& rates, const char* format) {
  std::string row = "| " + name + " |";
  for (const double rate : rates) {
    char cell[64];
    std::snprintf(cell, sizeof cell, format, 100 * rate);
    row += std::string(" ") + cell + " |";
  }
  return row + "\n";
}

Rates minus(const Rates& these, const Rates& those) {
  Rates rest(these.size());
  std::transform(these.begin(), these.end(), those.begin(), rest.begin(),
                 [](double a, double b) { return a - b; });
  return rest;
}

Rates larger_of(const Rates& these, const Rates& those) {
  Rates larger(these.size());
  std::transform(these.begin(), these.end(), those.begin(), larger.begin(),
                 [](double a, double b) { return std::max(a, b); });
  return larger;
}

std::string head_of(const std::string& what, const std::vector<double>& budgets_mb) {
  std::string head = "| " + what + " |", rule = "|---|";
  for (const double mb : budgets_mb) {
    char cell[64];
    std::snprintf(cell, sizeof cell, " %.4g GB |", mb / 1000);
    head += cell;
    rule += "---|";
  }
  return head + "\n" + rule + "\n";
}

// Whether the server's own is above both that it replaced, budget by budget, as the hit rates are printed. Where even the
// better of these is as good as full knowledge, all that matters fits, and there is nothing to win.
std::string verdicts_of(const Rates& ahead, const Rates& left_by_others) {
  constexpr double kPrinted = 0.005, kAllFits = 0.05;  // points
  std::string row = "| asked: above both |";
  for (std::size_t i = 0; i < ahead.size(); ++i) {
    row += 100 * ahead[i] >= kPrinted            ? " PASS |"
           : 100 * ahead[i] <= -kPrinted         ? " SHORT, below |"
           : 100 * left_by_others[i] <= kAllFits ? " PASS, all fits |"
                                                 : " SHORT, equal |";
  }
  return row + "\n";
}

}  // namespace

int compare_policies(const ReplayOptions& options) {
  std::map<std::string, Rates> rates;
  std::string table = head_of("policy", options.compare_mb), json;
  for (const std::string& policy : replay_policy_names()) {
    Rates& of_policy = rates[policy];
    std::string listed;
    for (const double mb : options.compare_mb) {
      ReplayOptions one = options;
      one.policy = policy;
      one.budget_mb = mb;
      of_policy.push_back(replay_trace(one).hit_rate());
      char cell[64];
      std::snprintf(cell, sizeof cell, "%s%.9g", listed.empty() ? "" : ", ", of_policy.back());
      listed += cell;
    }
    table += row_of(policy, of_policy, "%.2f");
    json += (json.empty() ? "" : ", ") + json_string(policy) + ": [" + listed + "]";
  }
  table += "\n" + head_of("points below belady", options.compare_mb);
  for (const std::string& policy : replay_policy_names()) {
    if (policy != "belady") table += row_of(policy, minus(rates["belady"], rates[policy]), "%.2f");
  }
  const Rates others = larger_of(rates["lru"], rates["forks"]);
  const Rates ahead = minus(rates["returns"], others);
  table += row_of("returns above the better of lru and forks", ahead, "%+.2f") +
           verdicts_of(ahead, minus(rates["belady"], others));
  const std::string out = options.json ? "{\"trace\": " + json_string(options.trace.filename().string()) +
                                             ", \"token_hit_rates\": {" + json + "}}\n"
                                       : table;
  std::fwrite(out.data(), 1, out.size(), stdout);
  return 0;
}

}  // namespace reprise::tools
