#pragma once
// What happens to members of an object that have the same key.
//
// Threading: a pure function.

#include "base/json.h"

namespace reprise {

/// A key that two members have; null: all differ. Takes as long as merge_same_keys().
const std::string* repeated_key(const Json::Object& members);

/// Of members with the same key only the last value stays, in the place of the first, as in Python. Sorts,
/// and does not hash: n members take O(n log n) comparisons whatever their keys are, and nobody can choose
/// keys that take longer.
void merge_same_keys(Json::Object& members);

}  // namespace reprise
