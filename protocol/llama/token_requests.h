#pragma once
// Bodies and answers of POST /tokenize, /detokenize and /apply-template, with llama-server's members and an
// optional "model".
//
// The readers throw BadRequest.

#include <string>
#include <string_view>
#include <vector>

#include "protocol/api/body_limits.h"
#include "protocol/service.h"

namespace reprise::protocol::llama {

// `unknown`, unless null, gets the names of fields without effect (protocol/api/field_rules.h).

/// Reads {"content": …, "add_special": false, "parse_special": true, "with_pieces": false}.
TokenizeRequest read_tokenize(std::string_view body, const BodyLimits& limits,
                              std::vector<std::string>* unknown = nullptr);
/// Writes {"tokens": […]}, with ids, or with {"id": …, "piece": …}; a piece that is not UTF-8 is an array of
/// bytes.
std::string tokenize_body(const Tokenized& answer, bool with_pieces);

/// Reads {"tokens": […]}.
DetokenizeRequest read_detokenize(std::string_view body, const BodyLimits& limits,
                                  std::vector<std::string>* unknown = nullptr);
/// Writes {"content": …}.
std::string detokenize_body(const Detokenized& answer);

/// Reads a body of /chat/completions.
RenderRequest read_apply_template(std::string_view body, const BodyLimits& limits,
                                  std::vector<std::string>* unknown = nullptr);
/// Writes {"prompt": …}.
std::string apply_template_body(const Rendered& answer);
/// Writes {"input_tokens": …}.
std::string input_tokens_body(const Rendered& answer);

}  // namespace reprise::protocol::llama
