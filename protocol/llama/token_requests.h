#pragma once
// The bodies of POST /tokenize, /detokenize and /apply-template, with llama-server's members, and those of
// their answers. "model" may be given besides.
//
// Threading: pure functions. The readers throw BadRequest.

#include <string>
#include <string_view>
#include <vector>

#include "protocol/api/body_limits.h"
#include "protocol/service.h"

namespace reprise::protocol::llama {

// `unknown`, where it is given, gets the names of fields without effect (protocol/api/field_rules.h).

/// {"content": …, "add_special": false, "parse_special": true, "with_pieces": false}
TokenizeRequest read_tokenize(std::string_view body, const BodyLimits& limits,
                              std::vector<std::string>* unknown = nullptr);
/// {"tokens": […]}, of ids, or of {"id": …, "piece": …}: a piece that is no text is an array of its bytes.
std::string tokenize_body(const Tokenized& answer, bool with_pieces);

/// {"tokens": […]} to {"content": …}
DetokenizeRequest read_detokenize(std::string_view body, const BodyLimits& limits,
                                  std::vector<std::string>* unknown = nullptr);
std::string detokenize_body(const Detokenized& answer);

/// A body of /chat/completions to {"prompt": …}
RenderRequest read_apply_template(std::string_view body, const BodyLimits& limits,
                                  std::vector<std::string>* unknown = nullptr);
std::string apply_template_body(const Rendered& answer);
/// The same to {"input_tokens": …}
std::string input_tokens_body(const Rendered& answer);

}  // namespace reprise::protocol::llama
