// Exit codes that scripts and schedulers may rely on.
#pragma once

namespace paceline::cli {

inline constexpr int kExitDone = 0;
inline constexpr int kExitUsage = 64;         // the command line is wrong
inline constexpr int kExitNoController = 69;  // nobody answers, or another one has taken over
inline constexpr int kExitBug = 70;
inline constexpr int kExitJournal = 74;     // of a controller: its journal cannot be written now
inline constexpr int kExitRequeue = 75;     // stopped in order: start it again later
inline constexpr int kExitDoNotRetry = 93;  // another try would fail in the same way
inline constexpr int kExitTimeLimit = 124;
inline constexpr int kExitInterrupted = 130;  // SIGINT, nothing saved
inline constexpr int kExitTerminated = 143;   // SIGTERM, nothing saved

}  // namespace paceline::cli
