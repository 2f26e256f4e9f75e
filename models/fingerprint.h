#pragma once
// Everything that decides the bits of a model's states, as three digests. Two loaded models may exchange
// states if and only if all three are equal.
//
// fingerprint_of() reads the files, which can take long (models/files/weights_digest.h).

#include <cstdint>

namespace reprise::models {

class Model;

struct Fingerprint {
  std::uint64_t weights = 0;     // digest of every byte
  std::uint64_t model = 0;       // hyperparameters, layers, state layout, compute settings
  std::uint64_t arithmetic = 0;  // this build, and Model::arithmetic()

  bool operator==(const Fingerprint&) const = default;
  /// One digest of all three.
  std::uint64_t all() const;
  /// Digest without the arithmetic: the same model with the same settings on any device.
  std::uint64_t identity() const;
};

Fingerprint fingerprint_of(const Model& model);

}  // namespace reprise::models
