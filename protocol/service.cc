#include "protocol/service.h"

#include <algorithm>

namespace reprise::protocol {

std::string_view name_of(ServiceErrorCode code) {
  switch (code) {
    case ServiceErrorCode::kInvalid:
      return "invalid";
    case ServiceErrorCode::kUnknownModel:
      return "unknown_model";
    case ServiceErrorCode::kTooLong:
      return "too_long";
    case ServiceErrorCode::kUnsupported:
      return "unsupported";
    case ServiceErrorCode::kOverloaded:
      return "overloaded";
    case ServiceErrorCode::kUnavailable:
      return "unavailable";
    case ServiceErrorCode::kInternal:
      return "internal";
    case ServiceErrorCode::kCancelled:
      return "cancelled";
  }
  return "?";
}

std::string_view name_of(FinishReason reason) {
  return reason == FinishReason::kStop ? "stop" : "length";
}

std::string_view name_of(ReasoningEnd end) {
  switch (end) {
    case ReasoningEnd::kModel:
      return "model";
    case ReasoningEnd::kBudget:
      return "budget";
    case ReasoningEnd::kClient:
      return "client";
  }
  return "?";
}

std::string_view name_of(ModelCard::State state) {
  switch (state) {
    case ModelCard::State::kLoading:
      return "loading";
    case ModelCard::State::kReady:
      return "ready";
    case ModelCard::State::kFailed:
      return "failed";
  }
  return "?";
}

bool ModelCard::answers_to(std::string_view name) const {
  return id == name || std::find(aliases.begin(), aliases.end(), name) != aliases.end();
}

std::string nearest_model(const std::vector<ModelCard>& cards, const std::string& name) {
  const auto is_model = [](const ModelCard& card) { return card.parent.empty(); };
  const auto is_named = [&](const ModelCard& card) { return card.answers_to(name); };
  if (std::count_if(cards.begin(), cards.end(), is_model) != 1) return name;
  return std::any_of(cards.begin(), cards.end(), is_named) ? name : std::string();
}

std::string no_such_model(std::string_view name, const std::vector<std::string>& served) {
  constexpr std::size_t kMostNames = 16;
  std::string text = "there is no model '" + std::string(name) + "'";
  for (std::size_t i = 0; i < std::min(served.size(), kMostNames); ++i) {
    text += (i == 0 ? "; served: " : ", ") + served[i];
  }
  if (served.size() > kMostNames) text += " and " + std::to_string(served.size() - kMostNames) + " more";
  return text;
}

}  // namespace reprise::protocol
