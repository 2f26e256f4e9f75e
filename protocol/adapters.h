#pragma once
// Adapters of served models, to whoever operates the server: what there is, and how one comes and goes while requests
// run.
//
// Threading: the asks belong to an actor's turn, as all asks do.

#include <cstdint>
#include <string>

#include "protocol/service.h"

namespace reprise::protocol {

struct AdapterCard {
  std::string model{};
  std::string name{};
  std::uint32_t matrices = 0;  // that it changes
  std::uint32_t rank = 0;      // the largest
  std::uint64_t bytes = 0;     // of the device's state memory
  std::uint64_t fingerprint = 0;
};

/// An adapter of one model, as a client of the server may name it.
struct AdapterWish {
  std::string model{};  // empty: the first
  std::string name{};
  /// Within the folder that the server was given for it; empty: where the configuration says.
  std::string path{};
};

class AdapterDesk {
 public:
  virtual ~AdapterDesk() = default;

  /// Answered when requests may choose it. One that is there already is answered at once.
  virtual runtime::Ask<Answer<AdapterCard>> load_adapter(AdapterWish wish) = 0;
  /// Answered when its memory is free. Requests that use it fail, and say why.
  virtual runtime::Ask<Answer<AdapterCard>> unload_adapter(AdapterWish wish) = 0;
};

}  // namespace reprise::protocol
