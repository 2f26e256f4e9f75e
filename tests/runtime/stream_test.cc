// Streams: credit, ends from both sides, limits, plain threads.

#include "runtime/stream.h"

#include "tests/runtime/probe.h"

namespace reprise::runtime {
namespace {

struct WriteAll {
  using Reply = int;
  StreamWriter<int> writer;
  int count;
};
struct Written {
  using Reply = int;
};
class Source : public Actor {
 public:
  using Accepts = Messages<WriteAll, Written>;
  static constexpr std::uint32_t kConcurrentHandlers = 4;
  Task<int> on(WriteAll all) {
    for (int i = 0; i < all.count; ++i) {
      auto writing = all.writer.write(i);
      const Result<void> written = co_await writing;
      if (!written.ok()) co_return -static_cast<int>(written.error().code) - 1;
      written_ = i + 1;
    }
    all.writer.close();
    co_return all.count;
  }
  int on(Written) { return written_; }

 private:
  int written_ = 0;
};

struct ReadAll {
  using Reply = int;  // number of items if in order and ended well; else -1 - error code
  StreamReader<int> reader;
};
class Sink : public Actor {
 public:
  using Accepts = Messages<ReadAll>;
  Task<int> on(ReadAll all) {
    int expected = 0;
    while (true) {
      auto reading = all.reader.next();
      const Result<int> value = co_await reading;
      if (!value.ok())
        co_return value.error().code == ErrorCode::kEnded ? expected
                                                          : -static_cast<int>(value.error().code) - 1;
      if (*value != expected++) co_return -1000;
    }
  }
};

int pump(Placement from, Placement to, std::uint32_t window, int count) {
  System system({.workers = 2});
  auto [writer, reader] = make_stream<int>(window);
  auto source = system.spawn<Source>({.placement = std::move(from)});
  auto sink = system.spawn<Sink>({.placement = std::move(to)});
  source.tell(WriteAll{std::move(writer), count});
  Result<int> read = sink.ask_blocking(ReadAll{std::move(reader)}, 60s);
  return read ? *read : -2000;
}

TEST(Stream, CarriesEverythingInOrder) {
  for (const std::uint32_t window : {1U, 2U, 3U, 64U}) {
    EXPECT_EQ(pump(Placement::pool(), Placement::pool(), window, 5000), 5000);
    EXPECT_EQ(pump(Placement::own_thread(), Placement::own_thread(), window, 5000), 5000);
  }
}

TEST(Stream, TheWriterSuspendsWithoutCredit) {
  System system({.workers = 1});
  auto [writer, reader] = make_stream<int>(8);
  auto source = system.spawn<Source>();
  source.tell(WriteAll{std::move(writer), 100});
  EXPECT_TRUE(eventually([&] { return *source.ask_blocking(Written{}, 5s) == 8; }));
  std::this_thread::sleep_for(5ms);
  EXPECT_EQ(*source.ask_blocking(Written{}, 5s), 8);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(*reader.next_blocking(Clock::now() + 5s), i);
  EXPECT_EQ(reader.next_blocking(Clock::now() + 5s).error().code, ErrorCode::kEnded);
  EXPECT_EQ(reader.next_blocking(Clock::now() + 5s).error().code, ErrorCode::kEnded) << "again and again";
}

TEST(Stream, ManualCreditIsGrantedByTheReaderAlone) {
  System system({.workers = 1});
  auto [writer, reader] = make_stream<int>(8, Credit::kManual);
  auto source = system.spawn<Source>();
  source.tell(WriteAll{std::move(writer), 100});
  EXPECT_EQ(reader.next_blocking(Clock::now() + 10ms).error().code, ErrorCode::kDeadline);
  reader.grant(3);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(*reader.next_blocking(Clock::now() + 5s), i);
  EXPECT_FALSE(reader.try_next().has_value());
  EXPECT_EQ(*source.ask_blocking(Written{}, 5s), 3);
  reader.grant(8);
  EXPECT_TRUE(eventually([&] { return *source.ask_blocking(Written{}, 5s) == 11; }));
}

TEST(StreamDeathTest, MoreCreditThanTheWindowIsABug) {
  auto [writer, reader] = make_stream<int>(2, Credit::kManual);
  EXPECT_DEATH(reader.grant(3), "more credit was granted than the window holds");
}

TEST(Stream, AReaderThatGoesAwayWakesTheWriter) {
  System system({.workers = 1});
  auto source = system.spawn<Source>();
  Result<int> written(0);
  auto [writer, reader] = make_stream<int>(4);
  std::thread waiting([&, end = std::make_shared<StreamWriter<int>>(std::move(writer))] {
    written = source.ask_blocking(WriteAll{std::move(*end), 100}, 10s);
  });
  EXPECT_TRUE(eventually([&] { return *source.ask_blocking(Written{}, 5s) == 4; }));
  { const StreamReader<int> gone = std::move(reader); }
  waiting.join();
  EXPECT_EQ(*written, -static_cast<int>(ErrorCode::kEnded) - 1);
}

struct WatchReader {
  using Reply = int;  // 1: the reader ended; 0: the watch was canceled and the next write succeeded
  StreamWriter<int> writer;
};
struct GiveUpWatch {};
class Watchman : public Actor {
 public:
  using Accepts = Messages<WatchReader, GiveUpWatch>;
  static constexpr std::uint32_t kConcurrentHandlers = 2;
  Task<int> on(WatchReader watch) {
    auto end = watch.writer.reader_end(watch_.token());
    const Result<void> ended = co_await end;
    if (ended.ok()) co_return 1;
    auto writing = watch.writer.write(7);
    const Result<void> written = co_await writing;
    co_return written.ok() ? 0 : -1;
  }
  void on(GiveUpWatch) { watch_.cancel(); }

 private:
  CancelSource watch_;
};

TEST(Stream, AWriterCanWatchForItsReadersEnd) {
  for (const bool goes : {true, false}) {
    System system({.workers = 1});
    auto watchman = system.spawn<Watchman>();
    auto [writer, reader] = make_stream<int>(1);
    Result<int> seen(0);
    std::thread waiting([&, end = std::make_shared<StreamWriter<int>>(std::move(writer))] {
      seen = watchman.ask_blocking(WatchReader{std::move(*end)}, 10s);
    });
    EXPECT_TRUE(eventually([&] { return system.actors().front().suspended_handlers == 1; }));
    if (goes) {
      reader.cancel();
    } else {
      watchman.tell(GiveUpWatch{});
      EXPECT_EQ(*reader.next_blocking(Clock::now() + 5s), 7);
    }
    waiting.join();
    EXPECT_EQ(*seen, goes ? 1 : 0);
  }
}

TEST(Stream, AWriterThatGoesAwayWakesTheReader) {
  System system({.workers = 1});
  auto sink = system.spawn<Sink>();
  for (const bool fails : {false, true}) {
    auto [writer, reader] = make_stream<int>(4);
    int value = 0;
    EXPECT_TRUE(writer.try_write(value).has_value());
    Result<int> read(0);
    std::thread waiting([&, end = std::make_shared<StreamReader<int>>(std::move(reader))] {
      read = sink.ask_blocking(ReadAll{std::move(*end)}, 10s);
    });
    std::this_thread::sleep_for(2ms);
    if (fails) {
      writer.fail(Error{ErrorCode::kIo, "torn"});
    } else {
      const StreamWriter<int> gone = std::move(writer);
    }
    waiting.join();
    EXPECT_EQ(*read, -static_cast<int>(fails ? ErrorCode::kIo : ErrorCode::kStopped) - 1);
  }
}

TEST(Stream, StoppingEitherActorEndsTheStream) {
  System system({.workers = 2});
  for (const bool stop_source : {true, false}) {
    auto [writer, reader] = make_stream<int>(4);
    auto source = system.spawn<Source>();
    auto sink = system.spawn<Sink>();
    Result<int> written(0);
    Result<int> read(0);
    std::thread writes([&, end = std::make_shared<StreamWriter<int>>(std::move(writer))] {
      written = source.ask_blocking(WriteAll{std::move(*end), 1'000'000'000}, 20s);
    });
    std::thread reads([&, end = std::make_shared<StreamReader<int>>(std::move(reader))] {
      read = sink.ask_blocking(ReadAll{std::move(*end)}, 20s);
    });
    std::this_thread::sleep_for(10ms);
    if (stop_source) {
      source.stop();
    } else {
      sink.stop();
    }
    writes.join();
    reads.join();
    if (stop_source) {
      EXPECT_EQ(*read, -static_cast<int>(ErrorCode::kStopped) - 1);
    } else {
      EXPECT_EQ(*written, -static_cast<int>(ErrorCode::kEnded) - 1);
    }
  }
}

struct Flaky {
  using Reply = int;
  StreamReader<Counted> reader;
};
class FlakyReader : public Actor {
 public:
  using Accepts = Messages<Flaky>;
  Task<int> on(Flaky flaky) {
    int read = 0;
    int gave_up = 0;
    while (true) {
      auto reading = flaky.reader.next(Clock::now() + 1ms);
      const Result<Counted> value = co_await reading;
      if (value.ok()) {
        ++read;
      } else if (value.error().code == ErrorCode::kDeadline) {
        ++gave_up;
      } else {
        co_return gave_up > 0 ? read : -1;
      }
    }
  }
};

TEST(Stream, AReadThatGivesUpLosesNothing) {
  {
    System system({.workers = 1});
    auto [writer, reader] = make_stream<Counted>(4);
    auto flaky = system.spawn<FlakyReader>();
    std::thread writes([&, end = std::make_shared<StreamWriter<Counted>>(std::move(writer))] {
      for (int i = 0; i < 60; ++i) {
        if (i % 3 == 0) std::this_thread::sleep_for(2ms);
        EXPECT_TRUE(end->write_blocking(Counted(), Clock::now() + 5s).ok());
      }
      end->close();
    });
    EXPECT_EQ(*flaky.ask_blocking(Flaky{std::move(reader)}, 20s), 60);
    writes.join();
  }
  EXPECT_EQ(Counted::alive, 0);
}

TEST(Stream, PlainThreadsCanUseBothEnds) {
  auto [writer, reader] = make_stream<int>(3);
  std::thread writes([&writer] {
    for (int i = 0; i < 20'000; ++i) EXPECT_TRUE(writer.write_blocking(i, Clock::now() + 10s).ok());
    writer.close();
  });
  int expected = 0;
  while (true) {
    const Result<int> value = reader.next_blocking(Clock::now() + 10s);
    if (!value.ok()) break;
    ASSERT_EQ(*value, expected++);
  }
  writes.join();
  EXPECT_EQ(expected, 20'000);
}

}  // namespace
}  // namespace reprise::runtime
