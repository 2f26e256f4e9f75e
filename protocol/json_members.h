#pragma once
// What happens to members of an object that have the same key.
//
// Threading: a pure function.

#include "protocol/json_value.h"

namespace reprise::protocol {

/// Of members with the same key only the last value stays, in the place of the first, as in Python. Sorts,
/// and does not hash: n members take O(n log n) comparisons whatever their keys are, and nobody can choose
/// keys that take longer.
void merge_same_keys(Json::Object& members);

}  // namespace reprise::protocol
