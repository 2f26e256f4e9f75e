#pragma once
// Which model, with which adapter, a request means.
//
// A model is named by itself or, with an adapter, as "MODEL:ADAPTER"; an adapter may also be named beside it. A model
// whose own name has a colon is found by its whole name first.
//
// Threading: pure functions over what everybody may read.

#include <memory>
#include <optional>
#include <string>

#include "actors/served/model_directory.h"
#include "protocol/service.h"

namespace reprise::actors {

struct ModelChoice {
  std::shared_ptr<const ServedModel> model;
  std::optional<ServedAdapter> adapter;  // none: the model as it is

  /// What clients call it.
  std::string name() const { return adapter ? model->card.id + ":" + adapter->name : model->card.id; }
  /// Where snapshots of its states are found, those of others are not: states of different adapters never meet. A name
  /// from outside (protocol/http/key_ring.h) is empty or begins with a digit.
  std::string name_space(const std::string& of_request) const {
    return adapter ? adapter->name_space() + of_request : of_request;
  }
};

/// If it is there and ready. `model` may be empty: the first; `adapter` too: none, or what `model` says.
protocol::Answer<ModelChoice> choose_model(const ModelDirectory& directory, const std::string& model,
                                           const std::string& adapter = {});

}  // namespace reprise::actors
