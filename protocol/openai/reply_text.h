#pragma once
// The parts of an answer that chats and completions, streams and whole answers have in common, as JSON text.
//
// Answers are written as text, not built as values: a stream has one small object for each token, and the
// text between its changing parts is always the same.
//
// Threading: pure functions.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/openai/request.h"
#include "protocol/service.h"

namespace reprise::protocol::openai {

/// What all objects of one answer begin with.
struct ReplyHead {
  std::string id;  // "chatcmpl-…"
  std::int64_t created = 0;
  std::string model;
};
/// `id`: of the request, without OpenAI's prefix; `now`: seconds since 1970.
ReplyHead reply_head(TextKind kind, const std::string& id, const Admitted& admitted, std::int64_t now);

/// {"id":…,"object":OBJECT,"created":…,"model":… without the closing brace.
void append_opening(std::string& out, const ReplyHead& head, std::string_view object);

/// {"prompt_tokens":…} with the tokens restored as prompt_tokens_details.cached_tokens, and those of reasoning.
void append_usage(std::string& out, const Usage& usage, std::uint32_t reasoning_tokens);
/// {"restored_tokens":…}: what the cache did, and the times.
void append_reprise(std::string& out, const Usage& usage);

/// The text of a prompt that is to be repeated.
std::string echo_of(const ReplyOptions& options, const Started& started);
/// ,"system_fingerprint":…: as llama-server's, a letter and a version.
void append_fingerprint(std::string& out);
/// ,"timings":{…} and, where it was asked for, ,"__verbose":{"prompt":…}: llama-server's.
void append_llama_account(std::string& out, const Usage& usage, const ReplyOptions& options,
                          const std::string& prompt_text);

/// {"content":[{"token":…,"logprob":…,"bytes":…,"top_logprobs":[…]}],"refusal":null}
void append_chat_logprobs(std::string& out, const std::vector<ReplyToken>& tokens);
/// {"tokens":[…],"token_logprobs":[…],"top_logprobs":[…],"text_offset":[…]}; moves `offset` on by the
/// characters of the tokens.
void append_completion_logprobs(std::string& out, const std::vector<ReplyToken>& tokens,
                                std::uint64_t& offset);
/// [1,2,3]
void append_token_ids(std::string& out, const std::vector<ReplyToken>& tokens);
/// ,"prompt_token_ids":[1,2,3]; nothing where there are none.
void append_prompt_ids(std::string& out, const SharedTokens& prompt);

}  // namespace reprise::protocol::openai
