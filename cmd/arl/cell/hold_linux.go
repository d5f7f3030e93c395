package cell

import (
	"net"

	"golang.org/x/sys/unix"
)

// hold keeps a port until release is called: no other program is given the port, since a socket is
// bound to it. Whoever knows the port may listen there meanwhile, because that socket does not
// listen, and both allow the address to be used again (socket(7), SO_REUSEADDR).
func hold(at *net.TCPAddr) (release func() error, err error) {
	var address unix.Sockaddr
	family := unix.AF_INET6
	if ip := at.IP.To4(); ip != nil {
		family, address = unix.AF_INET, &unix.SockaddrInet4{Port: at.Port, Addr: [4]byte(ip)}
	} else {
		address = &unix.SockaddrInet6{Port: at.Port, Addr: [16]byte(at.IP.To16())}
	}
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	release = func() error { return unix.Close(fd) }
	if err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err == nil {
		err = unix.Bind(fd, address)
	}
	if err != nil {
		_ = release()
		return nil, err
	}
	return release, nil
}
