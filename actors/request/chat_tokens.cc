#include "actors/request/chat_tokens.h"

#include "actors/request/prompt_text.h"

namespace reprise::actors {
namespace {

std::string text_of(const models::Tokenizer& tokenizer, std::optional<TokenId> id) {
  return id ? std::string(tokenizer.token_text(*id)) : std::string();
}

}  // namespace

protocol::ChatFormat::Tokens chat_tokens(std::shared_ptr<const models::Tokenizer> tokenizer, BosBy bos) {
  return {.bos = text_of(*tokenizer, tokenizer->bos()),
          .eos = text_of(*tokenizer, tokenizer->eos()),
          .encode =
              [tokenizer, bos](const std::string& text) {
                return bos == BosBy::kTokenizer ? encode_prompt(*tokenizer, text) : tokenizer->encode(text);
              },
          .encode_rest = [tokenizer](const std::string& text) { return tokenizer->encode(text); },
          .is_special = [tokenizer](TokenId id) { return tokenizer->is_special(id); },
          .bytes = [tokenizer](TokenId id) { return tokenizer->token_bytes(id).size(); }};
}

}  // namespace reprise::actors
