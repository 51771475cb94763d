"""Swift (SIGCOMM 2020): each flow has a window, which depends on the delay of acknowledgements."""
