#pragma once
// Template: a chat template in Jinja, rendered as Hugging Face's transformers does. Compiled once, rendered
// for each prompt.
//
// Templates and contexts are untrusted: rendering is bounded in time, memory, depth and output
// (RenderLimits), can access only its context, and has no side effects. Settings and extensions are those of
// transformers: trim_blocks, lstrip_blocks, break and continue, the generation tag, tojson without HTML
// escapes, raise_exception, strftime_now, and the immutable sandbox, which forbids changing lists and dicts.
//
// Differences to Jinja: integers have 64 bits, and overflow is an error; include, import and extends are
// errors when executed.
//
// Threading: immutable; any number of threads may render one Template at once.

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/outcome.h"
#include "protocol/jinja/error.h"

namespace reprise::protocol::jinja {

struct Program;

struct RenderOptions {
  std::optional<std::chrono::system_clock::time_point> now{};  // for strftime_now; unset: the current time
  RenderLimits limits{};
};

class Template {
 public:
  static Outcome<Template, TemplateError> compile(std::string_view source);

  /// `context` must be an object with the variables: messages, tools, add_generation_prompt, bos_token...
  Outcome<std::string, TemplateError> render(const Json& context, const RenderOptions& options = {}) const;

 private:
  explicit Template(std::shared_ptr<const Program> program) : program_(std::move(program)) {}

  std::shared_ptr<const Program> program_;
};

}  // namespace reprise::protocol::jinja
