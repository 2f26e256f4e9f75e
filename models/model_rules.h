#pragma once
// What holds of a model on its device, apart from its speed. Each field answers one question, and none follows
// from another.
//
// Threading: a plain value.

#include <cstdint>

namespace reprise::models {

struct ModelRules {
  std::uint32_t grid = 1;           // tokens: where prefill slices may begin, and canonical snapshots stand
  bool phases_mix = true;           // prefill slices and decoded tokens may share a pass: the same bits
  bool decode_is_canonical = true;  // a decoded state has the bits of a prefilled one, and may be shared
  bool replays_decoding = true;  // what was decoded can be prefilled again in the same bits; else it is saved
  bool gives_hidden = false;     // Slice::hidden is filled in
  bool exports_slots = false;    // Slice::exports are written: a slice need not end where a state is wanted
  bool computes_aside = false;   // a pass is waited for on another thread, while the model's owner goes on
};

}  // namespace reprise::models
