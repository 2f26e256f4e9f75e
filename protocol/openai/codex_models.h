#pragma once
// A model as Codex wants it told in the list of models: with what it needs to know to use it. It reads `models`, where
// others read `data`, and takes a list only where every entry has all that it asks for.
//
// Threading: a pure function.

#include "base/json.h"
#include "protocol/service.h"

namespace reprise::protocol::openai {

Json describe_for_codex(const ModelCard& card);

}  // namespace reprise::protocol::openai
