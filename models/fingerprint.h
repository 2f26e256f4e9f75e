#pragma once
// What decides the bits of a model's states, in three numbers. States of two loaded models may be exchanged where
// all three are equal, and only there.
//
// Threading: plain values; fingerprint_of() reads files and takes its time (models/files/weights_digest.h).

#include <cstdint>

namespace reprise::models {

class Model;

struct Fingerprint {
  std::uint64_t weights = 0;     // every byte of them
  std::uint64_t model = 0;       // hyper-parameters, layers, layout of the state, compute settings
  std::uint64_t arithmetic = 0;  // this build, and what Model::arithmetic() names

  bool operator==(const Fingerprint&) const = default;
  /// All of it in one number.
  std::uint64_t all() const;
  /// All but the arithmetic: the same model with the same settings, wherever it is computed.
  std::uint64_t identity() const;
};

Fingerprint fingerprint_of(const Model& model);

}  // namespace reprise::models
