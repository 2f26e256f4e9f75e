#pragma once
// An adapter as requests choose it: what it is to the worker, and what sets its states apart.
//
// Threading: a plain value.

#include <cstdint>
#include <cstdio>
#include <string>

#include "protocol/job.h"

namespace reprise::actors {

struct ServedAdapter {
  std::string name;
  protocol::AdapterLoaded loaded{};  // without meaning where it could not be loaded
  std::string error{};               // why not
  protocol::JobFault fault{};        // likewise

  bool ready() const { return error.empty(); }

  /// What the namespaces of its snapshots begin with: its fingerprint, which weights and scales are part of.
  std::string name_space() const {
    char text[40];
    std::snprintf(text, sizeof text, "adapter %016llx\n",
                  static_cast<unsigned long long>(loaded.fingerprint));
    return text;
  }
};

}  // namespace reprise::actors
