#pragma once
// Parses a body of named server-sent events into a list.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/json.h"

namespace reprise::protocol {

struct NamedEvent {
  std::string name;
  Json data;
};

inline std::vector<NamedEvent> named_events(const std::string& body) {
  std::vector<NamedEvent> events;
  std::size_t at = 0;
  while (at < body.size()) {
    const std::size_t end = body.find("\n\n", at);
    if (end == std::string::npos) {
      ADD_FAILURE() << "an event without an end: " << body.substr(at);
      break;
    }
    const std::string event = body.substr(at, end - at);
    at = end + 2;
    if (event.starts_with(':')) continue;  // a comment
    const std::size_t line = event.find("\ndata: ");
    if (!event.starts_with("event: ") || line == std::string::npos) {
      ADD_FAILURE() << "no named event: " << event;
      continue;
    }
    auto data = Json::parse(event.substr(line + 7));
    if (!data.ok()) {
      ADD_FAILURE() << "no JSON: " << event;
      continue;
    }
    events.push_back({event.substr(7, line - 7), std::move(*data)});
  }
  return events;
}

/// Returns e.g. "message_start content_block_start …", with repeated names collapsed.
inline std::string names_of(const std::vector<NamedEvent>& events) {
  std::string names;
  const std::string* last = nullptr;
  for (const NamedEvent& event : events) {
    if (last != nullptr && *last == event.name) continue;
    if (last != nullptr) names += ' ';
    names += event.name;
    last = &event.name;
  }
  return names;
}

}  // namespace reprise::protocol
