#include "tools/reprise/chat_status.h"

#include <cstdio>
#include <vector>

namespace reprise::tools {
namespace {

/// A part of the line; those with the lowest worth go first where there is no room.
struct StatusPart {
  std::string text;
  int worth;
};

std::string rounded(double value, const char* format) {
  char text[32];
  std::snprintf(text, sizeof(text), format, value);
  return text;
}

std::vector<StatusPart> status_parts(const ChatOutcome& outcome) {
  std::vector<StatusPart> parts;
  parts.push_back({"restored " + std::to_string(outcome.restored), 9});
  if (!outcome.restored_from.empty()) parts.push_back({" (" + outcome.restored_from + ")", 3});
  parts.push_back({", prefilled " + std::to_string(outcome.prefilled), 8});
  if (!outcome.miss_reason.empty()) {
    parts.push_back({", miss " + outcome.miss_reason, 7});
    parts.push_back({" @" + std::to_string(outcome.miss_position), 6});
  }
  parts.push_back({"; " + std::to_string(outcome.tokens) + " tokens", 4});
  if (outcome.stopped) parts.push_back({", stopped", 5});
  if (outcome.at_limit) parts.push_back({", cut at --max-tokens or the context's end", 5});
  if (outcome.first_token_ms) parts.push_back({"; first " + rounded(*outcome.first_token_ms, "%.0f ms"), 2});
  if (outcome.tokens_per_second) parts.push_back({", " + rounded(*outcome.tokens_per_second, "%.1f/s"), 1});
  return parts;
}

}  // namespace

std::string status_line(const ChatOutcome& outcome, std::size_t columns) {
  const std::vector<StatusPart> parts = status_parts(outcome);
  std::string line;
  for (int least = 0; least < 10; ++least) {
    line = "[";
    for (const StatusPart& part : parts) {
      if (part.worth >= least) line += part.text;
    }
    line += "]";
    if (columns == 0 || line.size() < columns) break;
  }
  return line;
}

}  // namespace reprise::tools
