#pragma once
// Rotary position embedding: what a checkpoint says about it, and the frequencies that follow.
//
// Pair i of a head, elements i and i + dimension / 2, is rotated by position * inv_freq[i]; cosine and sine
// are multiplied by attention_factor. Every way of stretching the context ends in these two, so that kernels
// know nothing of it.
//
// Threading: a plain value; immutable once it has been read.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace reprise::models {

struct RopeConfig {
  enum class Scaling : std::uint8_t {
    kNone,
    kLinear,  // all frequencies divided by `factor`
    kLlama3,  // long waves divided by `factor`, short ones kept, a ramp between
    kYarn,    // the same with another ramp, and an attention factor
    kTable,   // each frequency divided by its entry
  };

  double theta = 10000;
  std::size_t dimension = 0;               // leading elements of a head that are rotated; even
  std::vector<std::size_t> mrope_section;  // pairs by axis (time, height, width); empty: one axis
  bool mrope_interleaved = false;          // axes take turns among the pairs, instead of in runs

  // How the frequencies were made; the two results below have it applied already.
  Scaling scaling = Scaling::kNone;
  double factor = 1;
  std::size_t original_context = 0;  // kLlama3, kYarn
  double low_freq_factor = 1;        // kLlama3
  double high_freq_factor = 4;       // kLlama3
  double beta_fast = 32;             // kYarn
  double beta_slow = 1;              // kYarn
  bool truncate = true;              // kYarn: the ramp begins and ends at whole pairs
  std::vector<float> table;          // kTable

  std::vector<float> inv_freq;  // [dimension / 2] radians per position
  float attention_factor = 1;

  /// Whether they turn alike, however their frequencies were made.
  bool operator==(const RopeConfig& other) const;
};

/// The angles of the rows of a step, in the memory of the device that computes it.
struct RopeTable {
  float* cosine;  // [rows, dimension / 2]
  float* sine;    // [rows, dimension / 2]
};

enum class RopeField : std::uint8_t { kTheta, kDimension, kSection, kScaling };

/// Checks the fields against each other and the head, then computes inv_freq. Calls `fail`, which throws,
/// with what is wrong and why.
void finish_rope(RopeConfig& rope, std::size_t head_dim,
                 const std::function<void(RopeField, const std::string& reason)>& fail);

/// Qwen3.5's section where a checkpoint names none; one axis where it does not fit (text alone never needs
/// it).
std::vector<std::size_t> default_mrope_section(std::size_t dimension);

/// The attention factor that YaRN recommends for a context `factor` times as long.
double yarn_attention_factor(double factor, double mscale = 1);

}  // namespace reprise::models
