#pragma once
// Reply: the engine's events as the text that a client of some API gets. One object for each request.
//
// The calls come in the order of the engine's events (protocol/service.h): admitted() once and first, then
// started() for each prompt, delta() and finished() for each choice, done() last. Each appends what is to be
// sent now to `out`, or nothing. Of a reply in one piece that is the body, in done().
//
// A StreamedReply is sent as it grows, and has two calls more, which may come at any place, also before
// admitted(): keep_alive(), where the client has seen nothing for a while, and failed(), after which nothing
// comes. It writes whole events only, and ends its stream itself, in done() or failed(), where its API has a
// mark for that.
//
// Threading: one actor's.

#include <cstdint>
#include <string>
#include <string_view>

#include "protocol/api/api_error.h"
#include "protocol/chat/chat_format.h"
#include "protocol/reply/reply_parser.h"
#include "protocol/service.h"

namespace reprise::protocol {

class Reply {
 public:
  Reply() = default;
  virtual ~Reply() = default;
  Reply(const Reply&) = delete;
  Reply& operator=(const Reply&) = delete;

  /// `now` in seconds since 1970.
  virtual void admitted(const Admitted& event, std::int64_t now, std::string& out) = 0;
  /// Of a request with want_progress, before started().
  virtual void progress(const Progress&, std::string&) {}
  virtual void started(const Started& event, std::string& out) = 0;
  virtual void delta(Delta event, std::string& out) = 0;
  virtual void finished(const Finished& event, std::string& out) = 0;
  virtual void done(const Done& event, std::string& out) = 0;
  /// Of a request for embeddings, in the place of delta() and finished().
  virtual void embedded(Embedded, std::string&) {}
};

class StreamedReply : public Reply {
 public:
  /// A literal: "text/event-stream; charset=utf-8".
  virtual std::string_view content_type() const = 0;
  /// May append nothing where the API has no way to say it.
  virtual void keep_alive(std::string& out) = 0;
  virtual void failed(const ApiError& error, std::string& out) = 0;
};

/// What a reply is made with.
struct ReplyContext {
  std::string id{};             // 32 hex digits at random, that no other request has
  ChatFormatPtr chat{};         // the model's; null: it has none, and its replies are plain text
  ReplyParserOptions parser{};  // of a chat; prompt_tail and id_seed are left to parser_of()

  /// For the text of one choice of a chat.
  ReplyParser parser_of(std::uint32_t choice, const Started& started) const;
};

}  // namespace reprise::protocol
