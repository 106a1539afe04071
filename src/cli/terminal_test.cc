// Goal: the program's output is not disturbed by the block below it, and a log gets plain lines.
#include "cli/terminal.h"

#include <gtest/gtest.h>

#include "base/str.h"
#include "cli/run_view.h"

namespace paceline::cli {
namespace {

// Plays a terminal: applies cursor movement and clearing to lines of text.
class Screen {
 public:
  void write(Stream stream, std::string_view text) {
    (stream == Stream::Output ? output_ : error_) += text;
    while (!text.empty()) text.remove_prefix(take(text));
  }
  std::vector<std::string> lines() const { return lines_; }
  const std::string& output() const { return output_; }
  const std::string& error() const { return error_; }

 private:
  size_t take(std::string_view text) {
    if (text.starts_with("\x1b[")) {
      const size_t end = text.find_first_of("AJm");
      if (text[end] == 'A')
        lines_.resize(lines_.size() - std::stoul(std::string(text.substr(2, end - 2))));
      return end + 1;
    }
    if (text[0] == '\n') {
      lines_.push_back(line_);
      line_.clear();
    } else if (text[0] != '\r') {
      line_ += text[0];
    }
    return 1;
  }
  std::vector<std::string> lines_;
  std::string line_, output_, error_;
};

struct Shown {
  Screen screen;
  Terminal terminal;
  explicit Shown(const Terminal::Options& options)
      : terminal(options,
                 [this](Stream stream, std::string_view text) { screen.write(stream, text); }) {}
};

TEST(Terminal, Line_WithABlock_ScrollsAboveIt) {
  Shown shown({.is_live = true, .has_color = true, .columns = 40});
  shown.terminal.set_status({"step 1", "loss 2"});
  shown.terminal.line(Stream::Output, "hello");
  shown.terminal.set_status({"step 2"});
  EXPECT_EQ(shown.screen.lines(), (std::vector<std::string>{"hello", "step 2"}));
  shown.terminal.clear_status();
  EXPECT_EQ(shown.screen.lines(), (std::vector<std::string>{"hello"}));
}

TEST(Terminal, Block_WiderThanTheTerminal_IsCutBetweenCharacters) {
  Shown shown({.is_live = true, .has_color = false, .columns = 24});
  shown.terminal.set_status({std::string(22, 'x') + "\xc3\xa9\xc3\xa9\xc3\xa9"});
  EXPECT_EQ(shown.screen.lines().front(), std::string(22, 'x') + "\xc3\xa9");
}

TEST(Terminal, Block_HasAtMostFourLines) {
  Shown shown({.is_live = true, .has_color = false, .columns = 80});
  shown.terminal.set_status({"1", "2", "3", "4", "5"});
  EXPECT_EQ(shown.screen.lines().size(), Terminal::kMaxStatusLines);
}

TEST(Terminal, NotLive_HasNoEscapes) {
  Shown shown({.is_live = false, .has_color = false, .columns = 80});
  shown.terminal.set_status({"step 1"});
  shown.terminal.line(Tone::Bad, "incident");
  EXPECT_EQ(shown.screen.error(), "incident\n");
}

Instant at_ms(int64_t ms) { return Instant::from_nanoseconds(ms * 1'000'000); }

RankPlaced placed_on(uint32_t slot, const char* host) {
  RankPlaced placed;
  placed.rank = {SlotId(slot), Incarnation(1)};
  placed.host = HostId(slot);
  placed.host_name = host;
  return placed;
}

Incident crash_of(uint32_t slot) {
  Incident incident;
  incident.id = 1;
  incident.kind = IncidentKind::Crash;
  incident.rank = RankId{SlotId(slot), Incarnation(1)};
  incident.detected = at_ms(1000);
  incident.reason = "a spare is ready";
  incident.action = ActionKind::SwapSpare;
  return incident;
}

TEST(RunView, Output_IsPrefixedAndKeepsItsStream) {
  Shown shown({});
  RunView view(shown.terminal, at_ms(0));
  view.take(at_ms(1), placed_on(3, "host1"));
  OutputLine line;
  line.rank = {SlotId(3), Incarnation(1)};
  line.text = "loss 2.5";
  view.take(at_ms(2), line);
  line.is_stderr = true;
  line.text = "warning";
  view.take(at_ms(2), line);
  EXPECT_EQ(shown.screen.output(), "[host1 rank3] loss 2.5\n");
  EXPECT_EQ(shown.screen.error(), "[host1 rank3] warning\n");
}

TEST(RunView, ThreadsOfAHungRank_AreOneLineWithTheInnermostFrames) {
  Shown shown({});
  RunView view(shown.terminal, at_ms(0));
  OutputLine line;
  line.rank = {SlotId(3), Incarnation(1)};
  line.is_stderr = true;
  for (const char* thread : {"1 (gpt)", "2 (paceline)", "3 (gpt)"}) {
    line.text = str(kEvidencePrefix, "thread ", thread, " state S, stack a < b < c < d < e");
    view.take(at_ms(1), line);
  }
  line.text = "a < b < c < d";
  view.take(at_ms(2), line);
  EXPECT_EQ(shown.screen.error(),
            str("[rank3] ", kEvidencePrefix, "thread 1 (gpt) state S, stack a < b < c < ...\n",
                "[rank3] a < b < c < d\n"));
}

TEST(RunView, Incident_InALog_IsOneLineWhenSeenAndOneWhenOver) {
  Shown shown({});
  RunView view(shown.terminal, at_ms(0));
  Incident incident = crash_of(3);
  view.take(at_ms(1000), IncidentChanged{incident});
  view.take(at_ms(1100), IncidentChanged{incident});  // a restarted controller repeats it
  incident.recovered = at_ms(1300);
  incident.micro_batches_redone = 4;
  view.take(at_ms(1300), IncidentChanged{incident});
  view.take(at_ms(1400), IncidentChanged{incident});
  EXPECT_EQ(shown.screen.lines(),
            (std::vector<std::string>{
                "incident 1: crash, rank 3, step 0: swap spare (a spare is ready)",
                "incident 1: committing again 300 ms after detection, 4 micro-batches redone"}));
}

TEST(RunView, LongSilence_InALog_IsBrokenByProgress) {
  Shown shown({});
  RunView view(shown.terminal, at_ms(0));
  view.take(at_ms(0), JobStarted{.hosts = 4, .ranks = 4, .spares = 0, .micro_batches = 16});
  const size_t before = shown.screen.lines().size();
  view.refresh(at_ms(9'000));
  EXPECT_EQ(shown.screen.lines().size(), before);
  view.refresh(at_ms(10'000));
  view.refresh(at_ms(10'250));
  ASSERT_EQ(shown.screen.lines().size(), before + 1);
  EXPECT_NE(shown.screen.lines().back().find("0 of 4 ranks"), std::string::npos);
}

TEST(RunView, Status_ShowsRateOfTheLastSeconds) {
  Shown shown({.is_live = true, .has_color = false, .columns = 100});
  RunView view(shown.terminal, at_ms(0));
  JobProgress progress;
  progress.working = 4;
  progress.members = 5;
  for (const int64_t ms : {1000, 2000}) {
    progress.step = Step(static_cast<uint64_t>(ms) / 100);
    view.take(at_ms(ms), progress);
  }
  view.refresh(at_ms(2000));
  EXPECT_EQ(shown.screen.lines().back(), "pace: step 20, 10 steps/s, 4 working, 1 spare");
}

}  // namespace
}  // namespace paceline::cli
