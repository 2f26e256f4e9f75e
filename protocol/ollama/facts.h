#pragma once
// What is served, as Ollama lists it.
//
// Threading: one actor's.

#include <string>

#include "protocol/api/endpoint.h"

namespace reprise::protocol::ollama {

/// Clients ask for a version of Ollama's that has what they need: the one whose fields are known here.
inline constexpr const char* kOllamaVersion = "0.12.6";

/// GET /api/version
class VersionQuestion final : public Question {
 public:
  runtime::Task<Answered> answer(Service& service) override;
};

/// GET /api/tags, and /api/ps: all that is served is loaded.
class TagsQuestion final : public Question {
 public:
  explicit TagsQuestion(bool only_loaded) : only_loaded_(only_loaded) {}
  runtime::Task<Answered> answer(Service& service) override;

 private:
  const bool only_loaded_;
};

/// POST /api/show {"model": …}
class ShowQuestion final : public Question {
 public:
  /// Throws BadRequest.
  ShowQuestion(std::string_view body, const BodyLimits& limits);
  runtime::Task<Answered> answer(Service& service) override;

 private:
  std::string model_;
};

/// 2026-11-16T08:00:00Z
std::string time_text(std::int64_t seconds_since_1970);
/// Without the tag that Ollama adds to names that have none.
std::string without_tag(const std::string& name);

}  // namespace reprise::protocol::ollama
